package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const dueMS = int64(1_000_000)

// attempted returns a fire after its first attempt, with the default retry policy.
func attempted() (*inflight.Entry, *Attempt) {
	e := &inflight.Entry{
		Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: dueMS}, Attempt: 1},
		Def: &timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindAt},
			Retry:    timer.DefaultRetry(),
		},
	}
	return e, &Attempt{Result: callback.Result{Class: callback.Retry}, Number: 1}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	class := func(c callback.Class) func(*inflight.Entry, *Attempt) {
		return func(_ *inflight.Entry, a *Attempt) { a.Class = c }
	}
	for name, c := range map[string]struct {
		change func(e *inflight.Entry, a *Attempt)
		want   Verdict
	}{
		"success":  {class(callback.Success), Verdict{Action: Deliver}},
		"rejected": {class(callback.Reject), Verdict{Action: Fail, Reason: timer.ReasonRejected}},
		"accepted": {func(_ *inflight.Entry, a *Attempt) {
			a.Class, a.CompleteWithin = callback.Accepted, time.Minute
		}, Verdict{Action: Accept, Wait: time.Minute}},
		"gone for good": {func(_ *inflight.Entry, a *Attempt) {
			a.Class, a.Pause = callback.Reject, true
		}, Verdict{Action: Fail, Reason: timer.ReasonGone, Pause: true}},
		"retry after": {func(_ *inflight.Entry, a *Attempt) {
			a.RetryAfter = time.Hour
		}, Verdict{Action: Retry, Wait: time.Hour}},
		"one of several gone": {func(_ *inflight.Entry, a *Attempt) {
			a.Pause, a.RetryAfter = true, time.Hour
		}, Verdict{Action: Retry, Wait: time.Hour}},
		"exhausted": {func(e *inflight.Entry, a *Attempt) {
			a.Number = int32(e.Def.Retry.Attempts)
		}, Verdict{Action: Fail, Reason: timer.ReasonExhausted}},
		"exhausted, and one of several gone": {func(e *inflight.Entry, a *Attempt) {
			a.Number = int32(e.Def.Retry.Attempts)
			a.Pause = true
		}, Verdict{Action: Fail, Reason: timer.ReasonGone, Pause: true}},
		"past its give-up time": {func(e *inflight.Entry, _ *Attempt) {
			e.Def.Retry.GiveUpAfter = timer.Duration(time.Millisecond)
		}, Verdict{Action: Fail, Reason: timer.ReasonGaveUp}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, a := attempted()
			c.change(e, a)
			before := e.Fire
			require.Equal(t, c.want, Decide(e, a, time.UnixMilli(dueMS).Add(time.Second), .5))
			require.Equal(t, before, e.Fire, "a decision has no effects")
		})
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	e, a := attempted()
	e.Def.Retry.GiveUpAfter = timer.Duration(time.Minute)
	end := time.UnixMilli(dueMS).Add(time.Minute)
	require.False(t, GivesUp(e, end))
	require.True(t, GivesUp(e, end.Add(time.Millisecond)))
	require.Equal(t, Verdict{Action: Fail, Reason: timer.ReasonGaveUp}, GiveUp(e, a))
	e.Fire.Attempt = 0
	require.False(t, GivesUp(e, end.Add(time.Hour)), "it has not failed")
	e.Fire.Attempt, e.Def.Retry.GiveUpAfter = 1, 0
	require.False(t, GivesUp(e, end.Add(time.Hour)), "it never gives up")
}
