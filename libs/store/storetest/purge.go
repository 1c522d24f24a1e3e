package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// ReadersFindTheirEntry checks that a purge of the change log leaves the entry that was the last one
// until a moment ago, after hours without a change. pass makes the entries older.
func ReadersFindTheirEntry(t *testing.T, env Env, pass func(d time.Duration)) {
	t.Helper()
	s := newSetup(t, env)
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	purge := func() {
		t.Helper()
		s.together(4, func(ctx context.Context, _ int, st store.Store) error {
			return st.PurgeExpired(ctx, time.Hour)
		})
	}
	entries := func() (seqs []int64) {
		t.Helper()
		changes, err := s.st().Changes(ctx, 0, 10)
		require.NoError(t, err)
		for i := range changes {
			seqs = append(seqs, changes[i].Seq)
		}
		return seqs
	}
	s.setStatus(tm, timer.StatusActive, noFires)
	known := s.setStatus(tm, timer.StatusInactive, noFires).Seq
	pass(2 * time.Hour)
	purge()
	require.Equal(t, []int64{known}, entries(), "the last one stays")
	next := s.setStatus(tm, timer.StatusActive, noFires).Seq
	purge()
	require.Equal(t, []int64{known, next}, entries(), "a reader knew it a moment ago")
	pass(2 * time.Hour)
	purge()
	require.Equal(t, []int64{next}, entries())
}

// purgedBefore checks that the store knows what a shorter retention removed, and forgets no more than
// that.
func purgedBefore(t *testing.T, s *setup) {
	ctx := t.Context()
	purge := func(retention time.Duration) (ms int64) {
		t.Helper()
		s.together(3, func(ctx context.Context, _ int, st store.Store) error {
			return st.PurgeExpired(ctx, retention)
		})
		ms, err := s.st().PurgedBefore(ctx)
		require.NoError(t, err)
		return ms
	}
	none, err := s.st().PurgedBefore(ctx)
	require.NoError(t, err)
	require.Zero(t, none)
	const day = 24 * time.Hour
	before := s.nowMS()
	first := purge(day)
	require.GreaterOrEqual(t, first, before-day.Milliseconds())
	require.LessOrEqual(t, first, s.nowMS()-day.Milliseconds())
	require.Equal(t, first, purge(30*day), "what is gone stays so")
	before = s.nowMS()
	ahead := purge(-day) // as by a clock that is ahead
	require.GreaterOrEqual(t, ahead, before)
	require.LessOrEqual(t, ahead, s.nowMS())
	require.Equal(t, ahead, purge(day))
}

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

// oneShot returns a request for an active timer with a label and a calendar, and the plan of its fire.
func (s *setup) oneShot(due int64) (store.NewTimer, store.Planner) {
	n := s.newTimer()
	at := time.UnixMilli(due).UTC()
	n.Definition.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at}
	n.Definition.Labels = map[string]string{"purge": "yes"}
	n.Activate = true
	return n, planAt(0, due)
}

func (s *setup) purgeTimers(deleted, oneShots time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.st().PurgeTimers(s.t.Context(), deleted, oneShots))
}

// stays reports whether the store has a timer, with its version, or nothing of it.
func (s *setup) stays(tm timer.Timer) bool {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := s.st().Timer(ctx, tm.App, tm.ID)
	defs, errDefs := s.st().
		Definitions(ctx, []store.VersionKey{{Timer: tm.ID, Version: 1}})
	require.NoError(s.t, errDefs)
	found, errSearch := s.st().Search(ctx, store.SearchQuery{Limit: 500, Filter: store.Filter{
		App: tm.App,
		Labels: selector.Selector{
			{Name: "purge", Operator: selector.In, Values: []string{"yes"}},
		},
	}})
	require.NoError(s.t, errSearch)
	if len(defs) > 0 {
		return true
	}
	requireCode(s.t, timer.CodeNotFound, err)
	for _, other := range found.Timers {
		require.NotEqual(s.t, tm.ID, other.ID)
	}
	return false
}

// deletedTimersAreRemoved checks that a deleted timer goes with all that belongs to it once it has no
// open fire.
func deletedTimersAreRemoved(t *testing.T, s *setup) {
	ctx := t.Context()
	past := s.nowMS() - 3*24*time.Hour.Milliseconds()
	n, plan := s.oneShot(past)
	made := s.create(n, plan)
	kept := s.create(s.newTimer(), noFires).Timer
	s.setStatus(made.Timer, timer.StatusDeleted, noFires)
	s.purgeTimers(time.Hour, 0)
	require.True(t, s.stays(made.Timer), "it was deleted a moment ago")
	s.purgeTimers(-time.Hour, 0)
	require.True(t, s.stays(made.Timer), "its fire is open")

	session := s.session()
	skipped := delivered(s.claim(session, made.Fires)[0], s.nowMS())
	skipped.Kind, skipped.Reason, skipped.Attempts = timer.Skipped, timer.ReasonDeleted, 0
	s.record(session, skipped)
	again := s.create(
		store.NewTimer{App: "app", Name: n.Name, Definition: n.Definition},
		noFires,
	).Timer
	s.together(4, func(ctx context.Context, _ int, st store.Store) error {
		return st.PurgeTimers(ctx, -time.Hour, 0)
	})
	require.False(t, s.stays(made.Timer))
	require.True(t, s.stays(kept))
	require.True(t, s.stays(again), "another timer has the name")
	_, err := s.st().Changes(ctx, 0, 1000)
	require.NoError(t, err)
}

// deletedTimersWithFiresAheadStay checks that a deleted timer stays while its next fire is open, which
// a fixed delay may plan far ahead.
func deletedTimersWithFiresAheadStay(t *testing.T, s *setup) {
	n := s.newTimer()
	n.Definition.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(60 * 24 * time.Hour),
	}
	n.Activate = true
	due := s.nowMS() + time.Duration(n.Definition.Schedule.Every).Milliseconds()
	made := s.create(n, planAt(0, due))
	s.setStatus(made.Timer, timer.StatusDeleted, noFires)
	s.purgeTimers(-time.Hour, 0)
	require.True(t, s.stays(made.Timer))
}

// calledOneShotsAreRemoved checks which one-shots PurgeTimers takes.
func calledOneShotsAreRemoved(t *testing.T, s *setup) {
	now := s.nowMS()
	past, session := now-3*24*time.Hour.Milliseconds(), s.session()
	call := func(fires []timer.Fire) {
		for _, f := range s.claim(session, fires) {
			s.record(session, delivered(f, now))
		}
	}
	n, plan := s.oneShot(past)
	called := s.create(n, plan)
	open := s.create(s.oneShot(past))
	coming := s.create(s.oneShot(now + 3*time.Hour.Milliseconds()))
	paused := s.create(s.oneShot(past))
	call(paused.Fires)
	s.setStatus(paused.Timer, timer.StatusPaused, noFires)
	cron := s.newTimer()
	cron.Activate = true
	ended := s.create(cron, planAt(0, past))
	call(ended.Fires)
	call(called.Fires)
	added := s.create(s.oneShot(past))
	call(added.Fires)
	run, err := s.st().AddFires(t.Context(), "app", added.Timer.ID, []timer.Fire{{
		FireID:  timer.FireID{Timer: added.Timer.ID, DueMS: now, Series: int64(s.ids.Next())},
		RunAtMS: now, Cause: timer.CauseRunNow,
	}})
	require.NoError(t, err)
	call(run)
	backfilled := s.create(s.oneShot(past))
	call(backfilled.Fires)
	s.backfill(backfilled.Timer, 3)

	s.purgeTimers(-time.Hour, 0)
	require.True(t, s.stays(called.Timer), "one-shots stay")
	s.purgeTimers(-time.Hour, time.Hour)
	require.True(t, s.stays(called.Timer), "it was edited a moment ago")
	s.together(4, func(ctx context.Context, _ int, st store.Store) error {
		return st.PurgeTimers(ctx, -time.Hour, -time.Hour)
	})
	require.False(t, s.stays(called.Timer))
	require.True(t, s.stays(open.Timer), "its fire is open")
	require.True(t, s.stays(coming.Timer), "its instant is to come")
	require.True(t, s.stays(paused.Timer), "it is not active")
	require.True(t, s.stays(ended.Timer), "it is a cron")
	require.True(t, s.stays(added.Timer), "a fire was added to it")
	require.True(t, s.stays(backfilled.Timer), "its backfill runs")
	call(s.expandBackfills(everyMinute(4)))
	s.purgeTimers(-time.Hour, -time.Hour)
	require.True(t, s.stays(backfilled.Timer), "its fires were added a moment ago")

	call(open.Fires)
	s.purgeTimers(-time.Hour, -time.Hour)
	require.False(t, s.stays(open.Timer))
	again := s.create(n, plan)
	require.False(t, again.Existing, "the name is free")
	require.Len(t, again.Fires, 1)
}

// noAddedFireIsRemoved checks that a fire which AddFires returned has its timer.
func noAddedFireIsRemoved(t *testing.T, s *setup) {
	past, session := s.nowMS()-3*24*time.Hour.Milliseconds(), s.session()
	var made []store.CreateResult
	for range 20 {
		c := s.create(s.oneShot(past))
		s.record(session, delivered(s.claim(session, c.Fires)[0], s.nowMS()))
		made = append(made, c)
	}
	now := s.nowMS()
	added := make([]bool, len(made))
	s.together(len(made)+4, func(ctx context.Context, i int, st store.Store) error {
		if i >= len(made) {
			return st.PurgeTimers(ctx, -time.Hour, -time.Hour)
		}
		id := made[i].Timer.ID
		_, err := st.AddFires(ctx, "app", id, []timer.Fire{{
			FireID:  timer.FireID{Timer: id, DueMS: now, Series: int64(i) + 1},
			RunAtMS: now, Cause: timer.CauseRunNow,
		}})
		added[i] = err == nil
		if timer.CodeOf(err) == timer.CodeNotFound {
			return nil
		}
		return err
	})
	for i, c := range made {
		require.Equal(t, added[i], s.stays(c.Timer))
	}
}
