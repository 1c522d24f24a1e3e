package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// endedBackfillsArePurged checks that a backfill that ended does not stay for ever.
func endedBackfillsArePurged(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	b := s.backfill(tm, 3)
	session := s.session()
	for _, f := range s.claim(session, s.expandBackfills(everyMinute(4))) {
		s.record(session, delivered(f, s.nowMS()))
	}
	ended, err := s.st().Backfill(ctx, "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillDone, ended.Status)
	require.NoError(t, s.st().PurgeExpired(ctx, -time.Hour))
	_, err = s.st().Backfill(ctx, "app", b.ID)
	requireCode(t, timer.CodeNotFound, err)
}

// attemptsOfOpenFiresAreKept checks that the attempt of a fire that its receiver completes within a
// week (timer.MaxAsync) is there when it does, with a retention of a day.
func attemptsOfOpenFiresAreKept(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	const days = 3 * 24 * time.Hour
	called := s.nowMS() - days.Milliseconds()
	f := s.claim(session, s.fires(1, called))[0]
	f.State, f.RunAtMS, f.Attempt = timer.FireAccepted, called+time.Duration(timer.MaxAsync).
		Milliseconds(),
		1
	a := attempt(f, 1, called)
	a.StatusCode, a.Error = 202, ""
	released, err := s.st().Release(ctx, session, []timer.Fire{f}, []timer.Attempt{a})
	require.NoError(t, err)
	require.Len(t, released, 1)
	require.NoError(t, s.st().PurgeExpired(ctx, 24*time.Hour))
	require.Equal(t, store.CompletionAccepted, s.complete(completed(released[0])).State)
	rec, err := s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.EqualValues(t, 202, rec.Outcome.StatusCode)
	require.EqualValues(t, 12, rec.Outcome.DurationMS)
	require.Len(t, rec.Attempts, 1)
}
