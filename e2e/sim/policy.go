package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// suspectf records a fault of this comparison. A later comparison may not find it any more, because
// open fires are no fault yet.
func (env *Environment) suspectf(format string, args ...any) {
	env.suspected = append(env.suspected, fmt.Sprintf(format, args...))
}

// policyReasons are the skip reasons of policies. checkSkips checks whether they were right.
var policyReasons = map[timer.Reason]bool{ //nolint:gochecknoglobals // never written
	timer.ReasonMisfired:  true,
	timer.ReasonOverlap:   true,
	timer.ReasonQueueFull: true,
	timer.ReasonCancelled: true,
}

// coveredBy returns the due instants that a record covers, and checks their number against the
// record's.
func (env *Environment) coveredBy(o *timerPlan, h *history, x *timer.Outcome) []int64 {
	if x.Count <= 1 {
		return []int64{x.DueMS}
	}
	dues := dueInstants(o, h, x.DueMS, x.UntilMS+1)
	if int64(len(dues)) != x.Count {
		env.suspectf(
			"a record of %s from %s until %s covers %d fires, expected %d",
			o.name,
			stamp(x.DueMS),
			stamp(x.UntilMS),
			x.Count,
			len(dues),
		)
	}
	return dues
}

// addLeftoverDuties adds the duties of fires that an older version had expanded and a newer one
// does not have. They must be skipped, unless they were called before an executor knew of the edit.
func (env *Environment) addLeftoverDuties(
	led *ledger.Ledger,
	o *timerPlan,
	h *history,
	dues []int64,
	from, to int64,
	recorded map[int64]timer.Outcome,
) {
	if len(h.edits) == 0 {
		return
	}
	for due, x := range recorded {
		if due < from || due >= to {
			continue
		}
		if _, owed := slices.BinarySearch(dues, due); owed {
			continue
		}
		duty := ledger.Not
		for _, e := range h.edits {
			if due > e.at && due <= e.at+(changeDeadline+clockTolerance).Milliseconds() {
				duty = ledger.May
			}
		}
		if x.Kind == timer.Skipped && x.Reason != timer.ReasonSuperseded &&
			x.Reason != timer.ReasonInactive &&
			x.Reason != timer.ReasonDeleted &&
			x.Reason != timer.ReasonPaused &&
			!policyReasons[x.Reason] {
			env.suspectf(
				"%s of an older version of %s is skipped as %s",
				x.FireID,
				o.name,
				x.Reason,
			)
		}
		led.Add(h.id, time.UnixMilli(due), duty)
	}
}

// checkSkips checks that the timer's policies explain its skips.
func (env *Environment) checkSkips(
	o *timerPlan,
	h *history,
	recorded map[int64]timer.Outcome,
	all receiver.Arrivals,
) {
	var mine receiver.Arrivals
	for i := range all {
		if all[i].Fire.Timer == h.id {
			mine = append(mine, all[i])
		}
	}
	for _, x := range recorded {
		if x.Kind == timer.Skipped && policyReasons[x.Reason] {
			if wrong := env.skipFault(o, h, &x, mine); wrong != "" {
				env.suspectf("%s of %s is skipped as %s, and %s", x.FireID, o.name, x.Reason, wrong)
			}
		}
	}
	if o.step > 0 && !o.fixed && (o.misfire == "" || o.misfire == string(timer.MisfireFireOnce)) {
		env.checkCatchUp(o, mine)
	}
	if o.fixed || o.concurrency != "" && o.concurrency != string(timer.ConcurrencyCancelPrevious) {
		env.checkSerial(o, mine)
	}
}

func (env *Environment) skipFault(
	o *timerPlan,
	h *history,
	x *timer.Outcome,
	mine receiver.Arrivals,
) string {
	policy := timer.Misfire{Policy: timer.MisfirePolicy(o.misfire)}.For(timer.KindCron).Policy
	switch x.Reason {
	case timer.ReasonMisfired:
		grace := o.lateAfter() - clockTolerance - maxClockJump
		if late := time.Duration(x.FinishedMS-x.DueMS) * time.Millisecond; late < grace {
			return fmt.Sprintf("was only %s late", late)
		}
		switch {
		case policy == timer.MisfireFireAll:
			return "its timer calls every late fire"
		case policy == timer.MisfireFireOnce && !env.caughtUp(h, x, mine, grace):
			return "no call caught up with it"
		}
	case timer.ReasonOverlap:
		if o.concurrency != string(timer.ConcurrencySkip) {
			return "its timer has another policy"
		}
	case timer.ReasonQueueFull:
		if o.concurrency != string(timer.ConcurrencyQueueOne) &&
			o.concurrency != string(timer.ConcurrencyQueueAll) {
			return "its timer has another policy"
		}
	case timer.ReasonCancelled:
		if o.concurrency != string(timer.ConcurrencyCancelPrevious) {
			return "its timer has another policy"
		}
	case timer.ReasonNone, timer.ReasonInactive, timer.ReasonDeleted, timer.ReasonPaused,
		timer.ReasonFrozen, timer.ReasonSuperseded, timer.ReasonExhausted, timer.ReasonNotRetried,
		timer.ReasonGaveUp, timer.ReasonGone, timer.ReasonRejected:
		return "no policy skips for this reason"
	default:
		return "this reason is unknown"
	}
	return ""
}

// caughtUp reports whether a call covers a misfire: one that began when the misfire was late. A
// later change of the timer may have come before that call.
func (env *Environment) caughtUp(
	h *history,
	x *timer.Outcome,
	mine receiver.Arrivals,
	grace time.Duration,
) bool {
	for i := range mine {
		if mine[i].Arrived().Sub(time.UnixMilli(x.DueMS)) >= grace &&
			mine[i].Fire.DueMS <= mine[i].Arrived().Add(-grace).UnixMilli() {
			return true
		}
	}
	return slices.ContainsFunc(h.changes, func(c change) bool { return c.at > x.DueMS }) ||
		slices.ContainsFunc(h.edits, func(e edited) bool { return e.at > x.DueMS })
}

// lateAfter returns the lateness that counts as a misfire.
func (o *timerPlan) lateAfter() time.Duration {
	if o.grace > 0 {
		return o.grace
	}
	return time.Duration(timer.DefaultGrace)
}

// ordered reports whether late fires of the plan's timer start in the order of their due instants.
// An edited timer keeps the order only within each version, which is not checked.
func (o *timerPlan) ordered() bool {
	return o.step > 0 && o.misfire == string(timer.MisfireFireAll) && o.concurrency == "" &&
		len(o.edits) == 0
}

// longStoreOutage reports whether the store is unavailable for so long at once that executors stop
// waiting for it and start late fires in any order: about a minute.
func (p *Plan) longStoreOutage() bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool {
		return f.kind == storeUnavailable && f.duration >= 50*time.Second
	})
}

// checkCatchUp checks that no late call is made for an instant that the previous one covered. It
// leaves out fires that limits deferred or that may have waited for a worker, because they were not
// late when they were decided.
func (env *Environment) checkCatchUp(o *timerPlan, mine receiver.Arrivals) {
	slack := clockTolerance + maxClockJump
	var last *receiver.Arrival
	seen := make(map[timer.FireID]bool)
	for i := range mine {
		a := &mine[i]
		if seen[a.Fire] || a.Lateness() <= o.lateAfter()+slack {
			seen[a.Fire] = true
			continue
		}
		seen[a.Fire] = true
		if last != nil && !env.maybeDeferred(last.Arrived()) &&
			!env.recorder.deferred[a.Fire] && !env.recorder.deferred[last.Fire] && !env.maybeQueued(o, a) &&
			time.UnixMilli(a.Fire.DueMS).Before(env.coveredTo(o, last).Add(-slack)) {
			env.suspectf(
				"%s: %s is called %s late, and %s had covered it",
				o.name,
				a.Fire,
				a.Lateness(),
				last.Fire,
			)
		}
		last = a
	}
}

// coveredTo returns up to where a late call stands for others. If its timer was inactive between
// the stand-in's first question and its call, it stands only for what was late at the question.
func (env *Environment) coveredTo(o *timerPlan, call *receiver.Arrival) time.Time {
	to := call.Arrived().Add(-o.lateAfter())
	if ms, ok := env.recorder.covered[call.Fire]; ok && time.UnixMilli(ms).Before(to) {
		return time.UnixMilli(ms)
	}
	return to
}

// maybeQueued reports whether a late call may have waited for one of few workers: its fire was on time
// when it was claimed, and may have been decided then.
func (env *Environment) maybeQueued(o *timerPlan, call *receiver.Arrival) bool {
	claimed := env.recorder.claimed[call.Fire]
	return env.plan.Tune.MaxCalls > 0 &&
		claimed.Sub(time.UnixMilli(call.Fire.DueMS)) <= o.lateAfter()+clockTolerance
}

// maybeDeferred reports whether limits may have deferred a call: the decision what it covers was
// made before that.
func (env *Environment) maybeDeferred(at time.Time) bool {
	for _, l := range env.plan.Limits {
		if t := at.Sub(env.startTime); t >= l.from && t < l.to+limit.MaxWait+lateCalm {
			return true
		}
	}
	return false
}

// checkSerial checks that the fires of a timer did not overlap, each from its first call to its
// last answer. A fire whose first call died with its executor gives up its slot if it then waits for
// its timer; it begins again with the next call.
func (env *Environment) checkSerial(o *timerPlan, mine receiver.Arrivals) {
	type execution struct {
		fire     timer.FireID
		from, to time.Time
	}
	var executions []execution
	at := make(map[timer.FireID]int)
	for i := range mine {
		a := &mine[i]
		answered := a.Arrived().Add(min(o.endpoint.takes, o.timeout))
		n, ok := at[a.Fire]
		if inactive, is := env.recorder.inactive[a.Fire]; ok && is &&
			executions[n].from.Before(inactive) &&
			inactive.Before(a.Arrived()) {
			ok = false
		}
		if !ok {
			at[a.Fire] = len(executions)
			executions = append(executions, execution{a.Fire, a.Arrived(), answered})
			continue
		}
		executions[n].to = maxTime(executions[n].to, answered)
	}
	slices.SortFunc(executions, func(a, b execution) int { return a.from.Compare(b.from) })
	for i := 1; i < len(executions); i++ {
		if a, b := executions[i-1], executions[i]; o.fixed &&
			b.from.Add(clockTolerance).Before(a.to.Add(o.step)) {
			env.suspectf(
				"%s: %s is called at %s, and the previous call, of %s, ended at %s",
				o.name,
				b.fire,
				b.from,
				a.fire,
				a.to,
			)
		}
		if a, b := executions[i-1], executions[i]; b.from.Before(a.to) {
			env.suspectf(
				"%s: %s is called at %s, while %s is in flight from %s to %s",
				o.name,
				b.fire,
				b.from,
				a.fire,
				a.from,
				a.to,
			)
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkFixedDelay checks the chain of a fixed delay. In each activation the first fire is due a
// delay after the activation, and each other a delay after the end of the previous one. None may be
// missing at the end. The ledger takes the recorded fires as duties, because they cannot be known
// before.
func (env *Environment) checkFixedDelay(
	led *ledger.Ledger,
	o *timerPlan,
	h *history,
	recorded map[int64]timer.Outcome,
) {
	byEpoch := make(map[int64][]timer.Outcome)
	for _, x := range recorded {
		byEpoch[x.Epoch] = append(byEpoch[x.Epoch], x)
		duty := ledger.Must
		switch x.Kind {
		case timer.Failed:
			duty = ledger.Fail
		case timer.Skipped:
			duty = ledger.May
		case timer.Delivered:
		}
		led.Add(h.id, time.UnixMilli(x.DueMS), duty)
	}
	epoch := int64(0)
	for i, c := range h.changes {
		if c.status != timer.StatusActive {
			continue
		}
		epoch++
		to := int64(0)
		if i+1 < len(h.changes) {
			to = h.changes[i+1].at
		}
		to = min(to, env.startTime.Add(o.end).UnixMilli())
		chain := byEpoch[epoch]
		slices.SortFunc(
			chain,
			func(a, b timer.Outcome) int { return timer.CompareFires(a.Fire, b.Fire) },
		)
		end := c.at
		for _, x := range chain {
			if want := end + o.step.Milliseconds(); x.DueMS != want {
				env.suspectf(
					"%s of %s is due at %s, and the previous one ended at %s",
					x.FireID,
					o.name,
					stamp(x.DueMS),
					stamp(end),
				)
			}
			end = x.FinishedMS
		}
		// The last result may have been recorded, after an outage of the store, only after the
		// timer's deactivation. Then it has no successor.
		const away = 5 * time.Minute
		if to > 0 && end+o.step.Milliseconds()+away.Milliseconds() < to &&
			(len(chain) == 0 || end < to) {
			env.suspectf(
				"%s has no fire after %s, and was active until %s",
				o.name,
				stamp(end),
				stamp(to),
			)
		}
	}
}
