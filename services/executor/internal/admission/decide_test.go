package admission

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	dueMS  = int64(1_000_000)
	hourMS = int64(time.Hour / time.Millisecond)
)

// fire returns a fire of an active cron timer, and a view at its due time that allows its call.
func fire() (*inflight.Entry, *View) {
	e := &inflight.Entry{
		Fire: timer.Fire{
			FireID:  timer.FireID{Timer: 1, DueMS: dueMS},
			RunAtMS: dueMS,
			Version: 3,
			Epoch:   1,
		},
		Def: &timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron},
			Target:   timer.Target{Kind: timer.KindHTTP},
		},
	}
	s := timer.State{ID: 1, Status: timer.StatusActive, Version: 3, ActiveEpoch: 1}
	return e, &View{State: s, NowMS: dueMS}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	edited := func(e *inflight.Entry, v *View) { e.Fire.Version, v.State.VersionMS = 2, dueMS-1 }
	lateBy := func(p timer.MisfirePolicy) func(*inflight.Entry, *View) {
		return func(e *inflight.Entry, v *View) {
			e.Def.Misfire.Policy, v.NowMS = p, dueMS+hourMS
		}
	}
	slot := func(answer store.SlotVerdict) func(*inflight.Entry, *View) {
		return func(e *inflight.Entry, v *View) {
			e.Def.Concurrency.Policy = timer.ConcurrencySkip
			v.Slot = &store.SlotResult{SlotVerdict: answer}
		}
	}
	errNotPlanned := errors.New("no such time zone")
	follows := func(answer Answer) func(*inflight.Entry, *View) {
		return func(e *inflight.Entry, v *View) {
			e.Def.Schedule.Kind, v.Follows = timer.KindFixedDelay, answer
			if answer == No {
				v.FollowsErr = errNotPlanned
			}
		}
	}
	both := func(a, b func(*inflight.Entry, *View)) func(*inflight.Entry, *View) {
		return func(e *inflight.Entry, v *View) { a(e, v); b(e, v) }
	}
	for name, c := range map[string]struct {
		change func(e *inflight.Entry, v *View)
		want   Verdict
	}{
		"on time":       {func(*inflight.Entry, *View) {}, Verdict{}},
		"inactive":      {func(_ *inflight.Entry, v *View) { v.Status = skip(timer.ReasonInactive) }, skip(timer.ReasonInactive)},
		"paused":        {func(_ *inflight.Entry, v *View) { v.Status.Action = Defer }, Verdict{Action: Defer}},
		"no definition": {func(e *inflight.Entry, _ *View) { e.Def = nil }, read(NeedRow)},
		"no definition, and its row as it was": {func(e *inflight.Entry, v *View) {
			e.Def, v.Moved = nil, No
		}, Verdict{Action: Reject}},
		"its backfill is not read": {func(e *inflight.Entry, _ *View) {
			e.Fire.Cause, e.Fire.Series = timer.CauseBackfill, 1
		}, read(NeedBackfill)},
		"its backfill is cancelled": {func(e *inflight.Entry, v *View) {
			e.Fire.Cause, e.Fire.Series, v.Cancelled = timer.CauseBackfill, 1, Yes
		}, skip(timer.ReasonCancelled)},

		"edited before it was due":      {edited, read(NeedRow)},
		"edited, and its row as it was": {both(edited, func(_ *inflight.Entry, v *View) { v.Moved = No }), skip(timer.ReasonSuperseded)},
		"edited twice meanwhile":        {both(edited, func(_ *inflight.Entry, v *View) { v.Moved = Yes }), Verdict{Action: Recheck}},
		"edited after it was due":       {both(edited, func(_ *inflight.Entry, v *View) { v.State.VersionMS = dueMS }), Verdict{}},
		"edited twice":                  {func(e *inflight.Entry, v *View) { e.Fire.Version, v.State.VersionMS = 1, dueMS }, read(NeedNextVersion)},
		"edited twice, first before it was due": {func(e *inflight.Entry, v *View) {
			e.Fire.Version, v.State.VersionMS, v.NextVersionMS = 1, dueMS, dueMS-1
		}, read(NeedRow)},
		"moved to a later run time": {func(e *inflight.Entry, v *View) {
			e.Fire.RunAtMS, v.Moved = dueMS+1, Yes
		}, Verdict{Action: Wait}},
		"an activation is not recorded": {both(edited, func(_ *inflight.Entry, v *View) {
			v.State.Status = timer.StatusPaused
		}), Verdict{Action: Recheck}},
		"a fixed delay of an earlier activation": {func(e *inflight.Entry, v *View) {
			e.Def.Schedule.Kind, v.State.ActiveEpoch, v.Follows = timer.KindFixedDelay, 2, Yes
		}, read(NeedRow)},

		"late, skip":     {lateBy(timer.MisfireSkip), skip(timer.ReasonMisfired)},
		"late, fire_all": {lateBy(timer.MisfireFireAll), read(NeedLatest)},
		"late, fire_all, too old": {both(lateBy(timer.MisfireFireAll), func(_ *inflight.Entry, v *View) {
			v.Latest = No
		}), skip(timer.ReasonMisfired)},
		"late, fire_all, among the latest": {both(lateBy(timer.MisfireFireAll), func(_ *inflight.Entry, v *View) {
			v.Latest = Yes
		}), read(NeedOrder)},
		"late, fire_all, in order": {both(lateBy(timer.MisfireFireAll), func(_ *inflight.Entry, v *View) {
			v.Latest, v.InOrder = Yes, Yes
		}), Verdict{}},
		"late, fire_once": {lateBy(timer.MisfireFireOnce), read(NeedCatchUp)},
		"late, fire_once, covered": {both(lateBy(timer.MisfireFireOnce), func(_ *inflight.Entry, v *View) {
			v.CatchesUp = No
		}), skip(timer.ReasonMisfired)},
		"late, the default": {lateBy(""), read(NeedCatchUp)},
		"late, beyond the catch-up window": {both(lateBy(timer.MisfireFireAll), func(e *inflight.Entry, _ *View) {
			e.Def.Misfire.CatchUpWindow = timer.Duration(time.Minute)
		}), skip(timer.ReasonMisfired)},
		"late since the activation of a one-shot": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, v *View) {
			e.Def.Schedule.Kind = timer.KindAt
			e.DueFromMS, v.NowMS = dueMS+hourMS, dueMS+2*hourMS
		}), skip(timer.ReasonMisfired)},
		"soon after the activation of a one-shot": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, v *View) {
			e.Def.Schedule.Kind = timer.KindAt
			e.DueFromMS, v.NowMS = dueMS+hourMS, dueMS+hourMS+1
		}), Verdict{}},
		"late, its run time was moved": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, _ *View) {
			e.Fire.RunAtMS = dueMS + 1
		}), Verdict{}},
		"late, by a limit": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, _ *View) {
			e.WaitedForLimit = true
		}), Verdict{}},
		"late, of a request": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, _ *View) {
			e.Fire.Cause, e.Fire.Series = timer.CauseRunNow, 1
		}), Verdict{}},
		"late, a retry": {both(lateBy(timer.MisfireSkip), func(e *inflight.Entry, _ *View) {
			e.Fire.Attempt = 1
		}), Verdict{}},

		"no slot asked":          {func(e *inflight.Entry, _ *View) { e.Def.Concurrency.Policy = timer.ConcurrencySkip }, read(NeedSlot)},
		"a fixed delay":          {follows(Unknown), read(NeedSuccessor)},
		"a fixed delay, planned": {follows(Yes), read(NeedSlot)},
		"a fixed delay, not planned": {
			follows(No), Verdict{Action: GiveBack, Err: errNotPlanned},
		},
		"a fixed delay, not planned, frozen": {both(follows(No), func(_ *inflight.Entry, v *View) {
			v.Status = skip(timer.ReasonFrozen)
		}), Verdict{Action: GiveBack, Err: errNotPlanned}},
		"a fixed delay, not planned, inactive": {both(follows(No), func(_ *inflight.Entry, v *View) {
			v.Status = skip(timer.ReasonInactive)
		}), skip(timer.ReasonInactive)},
		"a run-now of a fixed delay, not planned": {both(follows(No), func(e *inflight.Entry, v *View) {
			e.Fire.Series, e.Fire.Cause = 1, timer.CauseRunNow
			v.Slot = &store.SlotResult{SlotVerdict: store.SlotGranted}
		}), Verdict{}},
		"slot granted":            {slot(store.SlotGranted), Verdict{}},
		"slot queued":             {slot(store.SlotQueued), Verdict{Action: Queue}},
		"slot skipped":            {slot(store.SlotSkipped), skip(timer.ReasonOverlap)},
		"slot queue full":         {slot(store.SlotQueueFull), skip(timer.ReasonQueueFull)},
		"slot replaced":           {slot(store.SlotReplaced), skip(timer.ReasonCancelled)},
		"slot not owned":          {slot(store.SlotNotOwned), Verdict{Action: Drop}},
		"slot of a newer release": {slot(99), Verdict{Action: Recheck}},

		"accepted and timed out": {func(e *inflight.Entry, _ *View) {
			e.Fire.State, e.Fire.Attempt = timer.FireAccepted, 1
		}, Verdict{Action: Fail}},
		"accepted and timed out, of a request": {func(e *inflight.Entry, _ *View) {
			e.Fire.State, e.Fire.Attempt, e.Fire.Series = timer.FireAccepted, 1, 1
			e.Fire.Cause = timer.CauseRunNow
			e.Def.Concurrency.Policy = timer.ConcurrencyCancelPrevious
		}, Verdict{Action: Fail}},
		"completed as failed, one at a time": {func(e *inflight.Entry, _ *View) {
			e.Fire.State, e.Fire.Attempt = timer.FireAsyncFailed, 1
			e.Def.Concurrency.Policy = timer.ConcurrencyQueueAll
		}, Verdict{Action: Fail}},
		"accepted and timed out, perhaps replaced": {func(e *inflight.Entry, _ *View) {
			e.Fire.State, e.Fire.Attempt = timer.FireAccepted, 1
			e.Def.Concurrency.Policy = timer.ConcurrencyCancelPrevious
		}, read(NeedSlot)},
		"a retry of a request": {func(e *inflight.Entry, _ *View) {
			e.Fire.State, e.Fire.Attempt, e.Fire.Series = timer.FireRetrying, 1, 1
			e.Fire.Cause = timer.CauseRunNow
			e.Def.Concurrency.Policy = timer.ConcurrencyCancelPrevious
		}, read(NeedSlot)},
		"the last attempt failed, frozen": {func(e *inflight.Entry, v *View) {
			e.Fire.State, e.Fire.Attempt, e.Def.Retry.Attempts = timer.FireAsyncFailed, 2, 2
			v.Status = skip(timer.ReasonFrozen)
		}, Verdict{Action: Fail}},
		"the last attempt failed, frozen, replaced": {both(slot(store.SlotReplaced), func(e *inflight.Entry, v *View) {
			e.Fire.State, e.Fire.Attempt = timer.FireAsyncFailed, 1
			e.Def.Concurrency.Policy = timer.ConcurrencyCancelPrevious
			v.Status = skip(timer.ReasonFrozen)
		}), skip(timer.ReasonCancelled)},
		"an attempt is left, frozen": {func(e *inflight.Entry, v *View) {
			e.Fire.State, e.Fire.Attempt, e.Def.Retry.Attempts = timer.FireAsyncFailed, 1, 2
			v.Status = skip(timer.ReasonFrozen)
		}, skip(timer.ReasonFrozen)},
		"an attempt is left, too late, frozen": {func(e *inflight.Entry, v *View) {
			e.Fire.State, e.Fire.Attempt, e.Def.Retry.Attempts = timer.FireAsyncFailed, 1, 2
			e.Def.Retry.GiveUpAfter, v.NowMS = timer.Duration(time.Minute), dueMS+hourMS
			v.Status = skip(timer.ReasonFrozen)
		}, Verdict{Action: Fail}},
		"the last attempt failed, deleted": {func(e *inflight.Entry, v *View) {
			e.Fire.State, e.Fire.Attempt = timer.FireAccepted, 1
			v.Status = skip(timer.ReasonDeleted)
		}, skip(timer.ReasonDeleted)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, v := fire()
			c.change(e, v)
			before := e.Fire
			require.Equal(t, c.want, Decide(e, v))
			require.Equal(t, before, e.Fire, "a decision has no effects")
		})
	}
}

// TestDecideKnowsItsRelease checks that a value of a newer release decides before all but a skip.
func TestDecideKnowsItsRelease(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*inflight.Entry){
		"cause":    func(e *inflight.Entry) { e.Fire.Cause = timer.CauseRedrive + 1 },
		"state":    func(e *inflight.Entry) { e.Fire.State = timer.FireAsyncFailed + 1 },
		"priority": func(e *inflight.Entry) { e.Fire.PriorityLevel = timer.LevelLow + 1 },
		"policy":   func(e *inflight.Entry) { e.Def.Misfire.Policy = "newer" },
		"target":   func(e *inflight.Entry) { e.Def.Target.Kind = "newer" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, v := fire()
			change(e)
			got := Decide(e, v)
			require.Equal(t, GiveBack, got.Action)
			require.ErrorContains(t, got.Err, "unknown ")
			v.Status = skip(timer.ReasonDeleted)
			require.Equal(t, v.Status, Decide(e, v))
		})
	}
}

// BenchmarkDecide measures the decision about a fire on time.
func BenchmarkDecide(b *testing.B) {
	e, v := fire()
	for b.Loop() {
		if Decide(e, v) != (Verdict{}) {
			b.Fatal("not called")
		}
	}
}
