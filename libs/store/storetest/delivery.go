package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// prioritiesAndTargets checks what fires, attempts and outcomes keep about their delivery.
func prioritiesAndTargets(t *testing.T, s *setup) {
	ctx := t.Context()
	session, other := s.session(), s.session()
	now := s.nowMS()
	item := s.newTimer()
	item.Activate = true
	item.Definition.Priority = timer.PriorityLow
	made := s.create(item, func(t *timer.Timer, nowMS int64) (p store.Plan) {
		p = planAt(0, now, now+1)(t, nowMS)
		for i := range p.Fires {
			p.Fires[i].PriorityLevel, p.Fires[i].TargetBits = t.Definition.Priority.PriorityLevel(), 9
		}
		return p
	})
	require.Len(t, made.Fires, 2)
	for _, f := range made.Fires {
		require.Equal(t, timer.LevelLow, f.PriorityLevel)
		require.Zero(t, f.TargetBits)
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
	}
	added, err := s.st().
		AddFires(ctx, "app", made.Timer.ID, []timer.Fire{{FireID: timer.FireID{Timer: made.Timer.ID, DueMS: now, Series: 4}, RunAtMS: now, TargetBits: 3}})
	require.NoError(t, err)
	require.Equal(t, timer.LevelLow, added[0].PriorityLevel, "the timer's own")
	require.Zero(t, added[0].TargetBits)

	won := s.claim(session, made.Fires)
	f := won[0]
	f.Attempt, f.State, f.TargetBits = 1, timer.FireRetrying, 1<<31|2
	tries := []timer.Attempt{attempt(f, 1, now), attempt(f, 1, now), attempt(f, 1, now)}
	tries[0].Target, tries[0].Failure = "audit", timer.FailureTimeout
	tries[1].Target, tries[1].Failure = "till 2", timer.FailureTooLarge
	tries[2].Target = "zoo"
	for range 2 {
		lost, err := s.st().RecordAttempts(ctx, session, []timer.Fire{f}, tries)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	rec, err := s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.Equal(t, f, *rec.Open)
	require.Equal(t, tries, rec.Attempts, "of one attempt one for each target")
	f.RunAtMS, f.TargetBits = now+7, 6
	released, err := s.st().Release(ctx, session, []timer.Fire{f}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 6, released[0].TargetBits)

	// A task does not contain it, a claim returns it.
	task := released[0]
	task.TargetBits = 0
	again := s.claim(other, []timer.Fire{task})
	require.Len(t, again, 1)
	require.EqualValues(t, 6, again[0].TargetBits)
	require.Equal(t, other, again[0].Owner)
	o := delivered(again[0], now+9)
	o.Kind, o.Reason, o.Failure = timer.Failed, timer.ReasonExhausted, timer.FailureReset
	lost, _ := s.record(other, o)
	require.Empty(t, lost)
	rec, err = s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.Equal(t, plain(o), plain(*rec.Outcome))
	require.Equal(t, timer.FailureReset, rec.Outcome.Failure)
	history, err := s.st().History(ctx, "app", f.Timer, timer.FireID{}, 10)
	require.NoError(t, err)
	require.Equal(t, *rec.Outcome, history[0])
}
