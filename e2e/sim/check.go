package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Result is the result of a run.
type Result struct {
	Verdict       ledger.Verdict
	Broken        []string // every broken promise
	Simulated     time.Duration
	Log           []byte
	Interruptions int
	Deferred      int // how often limits deferred a fire
	MissingFound  int // missing fires that schedulers found
}

const (
	checkInterval = 30 * time.Second // between checks for completion
	settleTimeout = 20 * time.Minute // after which unfinished fires count as lost
	// clockTolerance is how early, by true time, an executor's corrected clock may start a call.
	clockTolerance = 600 * time.Millisecond
	// pauseEndDelay is the additional lateness of a fire that is due just after the end of a pause:
	// a migrator first has to notice the end and create the fire's row.
	pauseEndDelay = time.Second
	// changeDeadline is how long after a deactivation calls may still start (P5).
	changeDeadline = time.Second
)

// settle waits until every fire has ended, and checks the results.
func (env *Environment) settle(t *testing.T) *Result {
	t.Helper()
	res := &Result{}
	for began := time.Now(); ; {
		clock.Pause(env.ctx, checkInterval)
		led, e := env.compare(t)
		res.Verdict = led.Check(e)
		left := env.unfinished(t)
		waiting := len(res.Verdict.NoOutcome) + len(res.Verdict.Missing) + len(left) +
			len(env.unpublished(e))
		if waiting == 0 || time.Since(began) > settleTimeout {
			env.checkP5(e)
			env.checkLateness(e)
			env.checkRetryWaits(e)
			env.checkDeadLetters(t, e)
			env.checkExplanations(t)
			res.MissingFound = env.missingFound(t)
			for _, what := range env.suspected {
				env.failf("%s", what)
			}
			for _, what := range left {
				env.failf("not finished: %s", what)
			}
			return res
		}
	}
}

func (r *Result) complete(env *Environment) {
	r.Simulated = time.Since(env.startTime)
	r.Broken = slices.Concat(env.broken, r.Verdict.Faults())
	r.Interruptions = len(env.observer.interruptions)
	r.Deferred = int(env.deferrals.Load())
	r.Log = env.log.b.Bytes()
	if r.MissingFound > 0 {
		r.Broken = append(
			r.Broken,
			fmt.Sprintf("schedulers found %d missing fires", r.MissingFound),
		)
	}
}

// compare returns the ledger and the evidence, and checks the policies.
func (env *Environment) compare(t *testing.T) (*ledger.Ledger, ledger.Evidence) {
	t.Helper()
	env.recorder.mu.Lock()
	e := ledger.Evidence{
		Arrivals: append(env.recorder.arrivals[:0:0], env.recorder.arrivals...),
		Clocks:   clockTolerance,
		Outcomes: []ledger.Outcome{},
		Begun:    maps.Clone(env.recorder.begun),
		Deferred: maps.Clone(env.recorder.deferred),
	}
	env.recorder.mu.Unlock()
	e.Arrivals.Sort()
	for i := range e.Arrivals { // a short wait for a limit, or for a share of few workers, is not recorded
		if a := &e.Arrivals[i]; env.plan.Tune.MaxCalls > 0 || env.maybeDeferred(a.Arrived()) {
			e.Deferred[a.Fire] = true
		}
	}
	for _, c := range env.observer.interruptions {
		e.Interruptions = append(
			e.Interruptions,
			ledger.Interruption{At: c.at, Ports: map[uint16]bool{c.n: true}},
		)
	}
	led := ledger.New()
	env.suspected = nil
	for i := range env.plan.Timers {
		o := &env.plan.Timers[i]
		h, ok := env.observer.historyOf(o.name)
		if !ok {
			env.failf("%s was never created", o.name)
			continue
		}
		outcomes := env.outcomesOf(t, o, &h)
		e.Outcomes = append(e.Outcomes, outcomes.list...)
		env.checkAttempts(o, outcomes.byFire)
		env.checkSkips(o, &h, outcomes.byFire, e.Arrivals)
		if o.fixed {
			env.checkFixedDelay(led, o, &h, outcomes.byFire)
			continue
		}
		env.addDuties(led, o, &h, outcomes.byFire)
		if o.ordered() && !env.plan.longStoreOutage() {
			led.InOrder(h.id, o.lateAfter()+2*clockTolerance) // by the clocks of two executors
		}
	}
	return led, e
}

type outcomes struct {
	list   []ledger.Outcome
	byFire map[int64]timer.Outcome // by due instant
}

func (env *Environment) outcomesOf(t *testing.T, o *timerPlan, h *history) outcomes {
	t.Helper()
	out := outcomes{byFire: make(map[int64]timer.Outcome)}
	var last timer.FireID
	for {
		page, err := env.store.History(t.Context(), h.app, h.id, last, 500)
		require.NoError(t, err)
		for _, x := range page {
			for _, due := range env.coveredBy(o, h, &x) {
				one := x
				one.DueMS = due
				out.list = append(
					out.list,
					ledger.Outcome{
						Fire:     one.FireID,
						Kind:     x.Kind,
						Reason:   x.Reason,
						Attempts: x.Attempts,
					},
				)
				out.byFire[due] = one
			}
			last = x.FireID
		}
		if len(page) == 0 {
			return out
		}
	}
}

// addDuties adds one timer's duties to the ledger, by the exact history of its status.
func (env *Environment) addDuties(
	led *ledger.Ledger,
	o *timerPlan,
	h *history,
	recorded map[int64]timer.Outcome,
) {
	owed := ledger.Must
	if o.fails {
		owed = ledger.Fail
	}
	if o.step == 0 {
		env.addOneShotDuty(led, o, h, owed, recorded)
		return
	}
	for i, c := range h.changes {
		to := env.startTime.Add(env.plan.Length).UnixMilli()
		if i+1 < len(h.changes) {
			to = h.changes[i+1].at
		}
		dues := dueInstants(o, h, c.at, min(to, env.startTime.Add(o.end).UnixMilli()))
		env.addLeftoverDuties(led, o, h, dues, c.at, to, recorded)
		for _, due := range dues {
			if c.status == timer.StatusActive {
				led.Add(h.id, time.UnixMilli(due), env.softenDuty(owed, due, c.at, recorded))
				continue
			}
			duty := env.notDue(due, c.at)
			led.Add(h.id, time.UnixMilli(due), duty)
			// An executor that does not know of the change yet may skip the fire for another reason.
			if x, ok := recorded[due]; ok && x.Kind == timer.Skipped && duty == ledger.Not &&
				x.Reason != reasonOf(c.status) &&
				x.Reason != timer.ReasonDeleted {
				env.suspectf(
					"%s of %s is skipped as %s, and the timer was %s",
					x.FireID,
					o.name,
					x.Reason,
					c.status,
				)
			}
		}
	}
}

// reasonOf returns the skip reason of a fire that is due while its timer has a status.
func reasonOf(s timer.Status) timer.Reason {
	switch s {
	case timer.StatusPaused:
		return timer.ReasonPaused
	case timer.StatusDeleted:
		return timer.ReasonDeleted
	case timer.StatusInactive, timer.StatusActive:
	}
	return timer.ReasonInactive
}

// addOneShotDuty adds a one-shot's duty to the ledger: one call, at its instant, or at its timer's
// next activation after that. In the second case the fire has either instant: the first if it was
// created before the deactivation.
func (env *Environment) addOneShotDuty(
	led *ledger.Ledger,
	o *timerPlan,
	h *history,
	owed ledger.Duty,
	recorded map[int64]timer.Outcome,
) {
	if len(h.changes) == 0 {
		return
	}
	first := h.changes[0].at
	due := max(env.startTime.Add(o.at).UnixMilli(), first)
	if o.delay > 0 {
		due = first + o.delay.Milliseconds()
	}
	if due >= env.startTime.Add(env.plan.Length).UnixMilli() {
		return // created so late that it is due after the end of the run
	}
	i := h.at(due)
	if h.changes[i].status == timer.StatusActive {
		led.Add(h.id, time.UnixMilli(due), env.softenDuty(owed, due, 0, recorded))
		return
	}
	for _, c := range h.changes[i:] {
		if c.status != timer.StatusActive {
			continue
		}
		if _, ok := recorded[c.at]; ok {
			due = c.at
		}
		led.Add(h.id, time.UnixMilli(due), env.softenDuty(owed, due, 0, recorded))
		return
	}
	led.Add(h.id, time.UnixMilli(due), env.notDue(due, h.changes[i].at))
}

// dueInstants returns a cron's instants in [from, to), by the version that holds at each.
func dueInstants(o *timerPlan, h *history, from, to int64) (dues []int64) {
	step, anchor := o.step.Milliseconds(), int64(0)
	if o.every {
		anchor = h.changes[0].at
		from = max(from, anchor+step)
	}
	for i := 0; from < to; i++ {
		end := to
		if i < len(h.edits) {
			end = min(to, max(from, h.edits[i].at+1))
		}
		for due := anchor + (from-anchor+step-1)/step*step; due < end; due += step {
			dues = append(dues, due)
		}
		from = end
		if i < len(h.edits) {
			step = h.edits[i].step.Milliseconds()
		}
	}
	return dues
}

// softenDuty returns the duty of a fire that was due while its timer was active, since an instant. It
// must be called, whatever happens to the timer later. If the timer was deleted, or a policy skipped
// the fire, it may be called. So it may if it was skipped before the activation, by a fast clock.
func (env *Environment) softenDuty(
	d ledger.Duty,
	due, since int64,
	recorded map[int64]timer.Outcome,
) ledger.Duty {
	o, ok := recorded[due]
	if !ok || o.Kind != timer.Skipped {
		return d
	}
	skipped, inactive := env.recorder.skipped[o.FireID]
	if o.Reason == timer.ReasonDeleted || policyReasons[o.Reason] ||
		inactive && skipped.UnixMilli() <= since && due < since+clockTolerance.Milliseconds() {
		return ledger.May
	}
	return d
}

// notDue returns the duty of a fire that was due while its timer was not active. It must not be
// called, except within the change deadline.
func (env *Environment) notDue(due, since int64) ledger.Duty {
	if due <= since+changeDeadline.Milliseconds() {
		return ledger.May
	}
	return ledger.Not
}

// checkP5 checks that each call's timer was active within the last second.
func (env *Environment) checkP5(e ledger.Evidence) {
	for _, a := range e.Arrivals {
		h := env.observer.byID[a.Fire.Timer]
		if h == nil {
			continue
		}
		at := a.Arrived()
		var last change
		for _, c := range h.changes {
			if c.at <= at.UnixMilli() {
				last = c
			}
		}
		since := at.Sub(time.UnixMilli(last.at))
		if last.status == timer.StatusActive || since <= changeDeadline {
			continue
		}
		if i := h.at(
			at.Add(clockTolerance).UnixMilli(),
		); h.changes[i].status == timer.StatusActive {
			continue // by the executor's clock the pause is over
		}
		if p := env.processByNumber(a.Port); p == nil || p.wasFrozen(at.Add(-changeDeadline), at) {
			continue
		}
		env.failf(
			"P5: %s attempt %d is called %s after its timer was %s",
			a.Fire,
			a.Attempt,
			since,
			last.status,
		)
	}
}

// checkLateness checks that first calls were no later than the plan's faults explain.
func (env *Environment) checkLateness(e ledger.Evidence) {
	seen := make(map[timer.FireID]bool)
	waits := make(map[timer.ID]bool)       // timers whose fires wait for each other
	fixed := make(map[timer.ID]*timerPlan) // timers with a fixed delay
	for i := range env.plan.Timers {
		o := &env.plan.Timers[i]
		h, ok := env.observer.historyOf(o.name)
		switch {
		case ok && strings.HasPrefix(o.concurrency, "queue"):
			waits[h.id] = true
		case ok && o.fixed:
			fixed[h.id] = o
		}
	}
	ends := make(map[timer.ID]time.Time) // end of the latest call of a fixed delay
	for _, a := range e.Arrivals {
		due := time.UnixMilli(a.Fire.DueMS)
		// It is due a delay after the end of the last call, also if a new chain has started
		// meanwhile.
		if o := fixed[a.Fire.Timer]; o != nil {
			if after := ends[a.Fire.Timer].Add(o.step); after.After(due) && !seen[a.Fire] {
				due = after
			}
			ends[a.Fire.Timer] = a.Arrived().
				Add(min(o.endpoint.takes, o.timeout) + o.endpoint.completeAfter)
		}
		if seen[a.Fire] || waits[a.Fire.Timer] {
			continue
		}
		seen[a.Fire] = true
		h := env.observer.byID[a.Fire.Timer]
		if h != nil && !h.activeThroughout(a.Fire.DueMS, a.Arrived().UnixMilli()) {
			continue // the fire waited for its timer
		}
		may, late := env.maxLateness(due), a.Lateness()-due.Sub(time.UnixMilli(a.Fire.DueMS))
		if may > 0 && h != nil && h.pauseEnded(a.Fire.DueMS) {
			may += pauseEndDelay
		}
		if may > 0 && late > may {
			env.failf("%s is %s late, allowed are %s", a.Fire, late, may)
		}
	}
}

// maxLateness returns how late a first call may be; 0 is no limit.
func (env *Environment) maxLateness(due time.Time) time.Duration {
	if env.maybeDeferred(due) {
		return 0
	}
	if len(env.plan.Zones) == 0 {
		return env.plan.Late
	}
	may := lateCalm
	for _, z := range env.plan.Zones {
		if at := due.Sub(env.startTime); at >= z.from-lateCalm && at < z.to {
			may += z.to - at
		}
	}
	return may
}

// Summary describes the result in a line.
func (r *Result) Summary() string {
	v := &r.Verdict
	return fmt.Sprintf(
		"%s simulated, due %d, called %d, delivered %d, failed %d, skipped %v, excused %d, interruptions %d, deferred %d, lateness p50 %s p99 %s max %s%s",
		r.Simulated,
		v.Due,
		v.Called,
		v.Delivered,
		v.Failed,
		v.Skipped,
		v.Excused,
		r.Interruptions,
		r.Deferred,
		v.Lateness.P50,
		v.Lateness.P99,
		v.Lateness.Max,
		strings.Join(append([]string{""}, r.Broken...), "\n  "),
	)
}
