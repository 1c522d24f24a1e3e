package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Result is what a run found.
type Result struct {
	Verdict   ledger.Verdict
	Broken    []string // every promise that did not hold
	Simulated time.Duration
	Log       []byte
	Cuts      int
	Deferred  int // how often a fire was put off by limits
}

const (
	calm     = 30 * time.Second // between looks whether all is done
	patience = 20 * time.Minute // after which what is not done is lost
	// skewed is how early, by true time, an executor's corrected clock may make a call.
	skewed = 600 * time.Millisecond
	// noticing is how much later a fire may be that is due just after the end of a pause: its row
	// is made when a migrator notices that.
	noticing = time.Second
	// noticed is how long after a deactivation a call may start (P5).
	noticed = time.Second
)

// settle waits until every fire has come to its end, and compares.
func (w *Environment) settle(t *testing.T) *Result {
	t.Helper()
	res := &Result{}
	for began := time.Now(); ; {
		clock.Pause(w.ctx, calm)
		led, e := w.compare(t)
		res.Verdict = led.Check(e)
		left := w.unfinished(t)
		if len(res.Verdict.NoOutcome)+len(res.Verdict.Missing)+len(left) == 0 ||
			time.Since(began) > patience {
			w.heeded(e)
			w.onTime(e)
			w.waited(e)
			w.buried(e)
			for _, what := range w.blamed {
				w.failf("%s", what)
			}
			for _, what := range left {
				w.failf("not finished: %s", what)
			}
			return res
		}
	}
}

func (r *Result) finish(w *Environment) {
	r.Simulated = time.Since(w.start0)
	r.Broken = slices.Concat(w.faults, r.Verdict.Faults())
	r.Cuts = len(w.seen.cuts)
	r.Deferred = int(w.parked.Load())
	r.Log = w.log.b.Bytes()
}

// compare holds what happened against what must have happened.
func (w *Environment) compare(t *testing.T) (*ledger.Ledger, ledger.Evidence) {
	t.Helper()
	w.recv.mu.Lock()
	e := ledger.Evidence{
		Arrivals: append(w.recv.arrivals[:0:0], w.recv.arrivals...),
		Clocks:   skewed,
		Outcomes: []ledger.Outcome{},
	}
	w.recv.mu.Unlock()
	e.Arrivals.Sort()
	for _, c := range w.seen.cuts {
		e.Cuts = append(e.Cuts, ledger.Cut{At: c.at, Ports: map[uint16]bool{c.n: true}})
	}
	led := ledger.New()
	w.blamed = nil
	for i := range w.plan.Orders {
		o := &w.plan.Orders[i]
		h, ok := w.seen.of(o.name)
		if !ok {
			w.failf("%s was never created", o.name)
			continue
		}
		outcomes := w.outcomesOf(t, o, &h)
		e.Outcomes = append(e.Outcomes, outcomes.list...)
		w.counted(o, outcomes.byFire)
		w.judge(o, &h, outcomes.byFire, e.Arrivals)
		if o.fixed {
			w.chained(led, o, &h, outcomes.byFire)
			continue
		}
		w.enter(led, o, &h, outcomes.byFire)
	}
	return led, e
}

type outcomes struct {
	list   []ledger.Outcome
	byFire map[int64]timer.Outcome // by due
}

func (w *Environment) outcomesOf(t *testing.T, o *order, h *history) outcomes {
	t.Helper()
	out := outcomes{byFire: make(map[int64]timer.Outcome)}
	var last timer.FireID
	for {
		page, err := w.store.History(t.Context(), h.app, h.id, last, 500)
		require.NoError(t, err)
		for _, x := range page {
			for _, due := range w.coveredBy(o, h, &x) {
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

// enter writes into the ledger what one timer owes, by the exact history of its status.
func (w *Environment) enter(
	led *ledger.Ledger,
	o *order,
	h *history,
	recorded map[int64]timer.Outcome,
) {
	owed := ledger.Must
	if o.fails {
		owed = ledger.Fail
	}
	if o.step == 0 {
		w.enterOnce(led, o, h, owed, recorded)
		return
	}
	for i, c := range h.changes {
		to := w.start0.Add(w.plan.Length).UnixMilli()
		if i+1 < len(h.changes) {
			to = h.changes[i+1].at
		}
		dues := instants(o, h, c.at, min(to, w.start0.Add(o.end).UnixMilli()))
		w.leftOver(led, o, h, dues, c.at, to, recorded)
		for _, due := range dues {
			if c.status == timer.StatusActive {
				led.One(h.id, time.UnixMilli(due), w.duty(owed, due, recorded))
				continue
			}
			led.One(h.id, time.UnixMilli(due), w.notDue(due, c.at))
			if x, ok := recorded[due]; ok && x.Kind == timer.Skipped &&
				x.Reason != reasonOf(c.status) &&
				x.Reason != timer.ReasonDeleted {
				w.blamef(
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

// reasonOf returns why a fire is skipped that is due while its timer has a status.
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

// enterOnce writes into the ledger what a one-shot owes: one call, at its instant, or when its
// timer is active again after that. The fire has either instant then: the first where it was made
// before the timer was switched off.
func (w *Environment) enterOnce(
	led *ledger.Ledger,
	o *order,
	h *history,
	owed ledger.Duty,
	recorded map[int64]timer.Outcome,
) {
	if len(h.changes) == 0 {
		return
	}
	first := h.changes[0].at
	due := max(w.start0.Add(o.at).UnixMilli(), first)
	if o.delay > 0 {
		due = first + o.delay.Milliseconds()
	}
	if due >= w.start0.Add(w.plan.Length).UnixMilli() {
		return // created so late that it is due when nothing is watched any more
	}
	i := h.at(due)
	if h.changes[i].status == timer.StatusActive {
		led.One(h.id, time.UnixMilli(due), w.duty(owed, due, recorded))
		return
	}
	for _, c := range h.changes[i:] {
		if c.status != timer.StatusActive {
			continue
		}
		if _, ok := recorded[c.at]; ok {
			due = c.at
		}
		led.One(h.id, time.UnixMilli(due), w.duty(owed, due, recorded))
		return
	}
	led.One(h.id, time.UnixMilli(due), w.notDue(due, h.changes[i].at))
}

// instants returns the instants of a cron from one instant on and before another, by the version
// that holds at each.
func instants(o *order, h *history, from, to int64) (dues []int64) {
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

// duty softens what a fire owes: one that was due while its timer was active is called, whatever
// came of the timer afterwards, but where the timer was deleted, or its policies want no call.
func (w *Environment) duty(d ledger.Duty, due int64, recorded map[int64]timer.Outcome) ledger.Duty {
	if o, ok := recorded[due]; ok && o.Kind == timer.Skipped &&
		(o.Reason == timer.ReasonDeleted || onPurpose[o.Reason]) {
		return ledger.May
	}
	return d
}

// notDue is what a fire owes that was due while its timer was not active: nothing, though one that
// was due within a second of that may be called.
func (w *Environment) notDue(due, since int64) ledger.Duty {
	if due <= since+noticed.Milliseconds() {
		return ledger.May
	}
	return ledger.Not
}

// heeded looks whether each call was of a timer that was active within the last second.
func (w *Environment) heeded(e ledger.Evidence) {
	for _, a := range e.Arrivals {
		h := w.seen.byID[a.Fire.Timer]
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
		if last.status == timer.StatusActive || since <= noticed {
			continue
		}
		if i := h.at(at.Add(skewed).UnixMilli()); h.changes[i].status == timer.StatusActive {
			continue // by the executor's clock the pause is over
		}
		if p := w.byNumber(a.Port); p == nil || p.wasFrozen(at.Add(-noticed), at) {
			continue
		}
		w.failf(
			"P5: %s attempt %d is called %s after its timer was %s",
			a.Fire,
			a.Attempt,
			since,
			last.status,
		)
	}
}

// onTime looks whether first calls were as late as the plan's faults explain, and no later.
func (w *Environment) onTime(e ledger.Evidence) {
	seen := make(map[timer.FireID]bool)
	waits := make(map[timer.ID]bool)   // timers whose fires wait for each other
	fixed := make(map[timer.ID]*order) // those with a fixed delay
	for i := range w.plan.Orders {
		o := &w.plan.Orders[i]
		h, ok := w.seen.of(o.name)
		switch {
		case ok && strings.HasPrefix(o.concurrency, "queue"):
			waits[h.id] = true
		case ok && o.fixed:
			fixed[h.id] = o
		}
	}
	ends := make(map[timer.ID]time.Time) // of the latest call of a fixed delay
	for _, a := range e.Arrivals {
		due := time.UnixMilli(a.Fire.DueMS)
		// a delay after the end of the last call, also where a chain has begun anew meanwhile.
		if o := fixed[a.Fire.Timer]; o != nil {
			if after := ends[a.Fire.Timer].Add(o.step); after.After(due) && !seen[a.Fire] {
				due = after
			}
			ends[a.Fire.Timer] = a.Arrived().
				Add(min(o.endpoint.takes, o.timeout) + o.endpoint.later)
		}
		if seen[a.Fire] || waits[a.Fire.Timer] {
			continue
		}
		seen[a.Fire] = true
		h := w.seen.byID[a.Fire.Timer]
		if h != nil && !h.activeAll(a.Fire.DueMS, a.Arrived().UnixMilli()) {
			continue // it waited for its timer
		}
		may, late := w.mayBeLate(due), a.Lateness()-due.Sub(time.UnixMilli(a.Fire.DueMS))
		if may > 0 && h != nil && h.pauseEnded(a.Fire.DueMS) {
			may += noticing
		}
		if may > 0 && late > may {
			w.failf("%s is %s late, and may be %s", a.Fire, late, may)
		}
	}
}

// mayBeLate returns how late a first call may be; 0 is no bound.
func (w *Environment) mayBeLate(due time.Time) time.Duration {
	if w.putOff(due) {
		return 0
	}
	if len(w.plan.Zones) == 0 {
		return w.plan.Late
	}
	may := lateCalm
	for _, z := range w.plan.Zones {
		if at := due.Sub(w.start0); at >= z.from-lateCalm && at < z.to {
			may += z.to - at
		}
	}
	return may
}

// Summary is a line about a run.
func (r *Result) Summary() string {
	v := &r.Verdict
	return fmt.Sprintf(
		"%s simulated, due %d, called %d, delivered %d, failed %d, skipped %v, excused %d, cuts %d, parked %d, lateness p50 %s p99 %s max %s%s",
		r.Simulated,
		v.Due,
		v.Called,
		v.Delivered,
		v.Failed,
		v.Skipped,
		v.Excused,
		r.Cuts,
		r.Deferred,
		v.Lateness.P50,
		v.Lateness.P99,
		v.Lateness.Max,
		strings.Join(append([]string{""}, r.Broken...), "\n  "),
	)
}
