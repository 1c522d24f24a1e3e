package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// pause pauses a timer, which must succeed.
func (s *setup) pause(
	tm timer.Timer,
	reason string,
	untilMS int64,
	plan store.Planner,
) store.StatusResult {
	s.t.Helper()
	out, err := s.st().SetStatus(s.t.Context(), []store.StatusChange{
		{App: tm.App, ID: tm.ID, Status: timer.StatusPaused, Reason: reason, UntilMS: untilMS},
	}, plan)
	require.NoError(s.t, err)
	require.NoError(s.t, out[0].Err)
	got, err := s.st().Timer(s.t.Context(), tm.App, tm.ID)
	require.NoError(s.t, err)
	require.Equal(s.t, got, out[0].Timer)
	return out[0]
}

func pausesEnd(t *testing.T, s *setup) {
	ctx := t.Context()
	plan := grid(10*time.Minute, 1000)
	made := s.gridTimer(gridDefinition(time.Minute), plan).Timer
	until := s.nowMS() + time.Hour.Milliseconds()
	paused := s.pause(made, "migration", until, plan)
	require.Positive(t, paused.Seq)
	require.Equal(t, timer.StatusPaused, paused.Timer.Status)
	require.Equal(t, "migration", paused.Timer.PauseReason)
	require.Equal(t, until, paused.Timer.PausedUntilMS)
	states, err := s.st().States(ctx, []timer.ID{made.ID})
	require.NoError(t, err)
	require.Equal(t, timer.StatusPaused, states[0].Status)
	listed, err := s.st().List(ctx, store.Query{App: "app", Status: timer.StatusPaused, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []timer.Timer{paused.Timer}, listed)
	require.Zero(t, s.pause(made, "migration", until, plan).Seq, "nothing changes")
	require.Positive(t, s.pause(made, "other", until, plan).Seq)
	require.Empty(t, s.expandDue(plan), "the pause has not ended")

	forEver := s.pause(made, "", 0, plan)
	require.Equal(t, timer.NeverMS, forEver.Timer.ExpandAtMS)
	last := s.pause(made, "short", s.nowMS()-1, plan)
	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	fires := s.expandDue(plan)
	got, err := s.st().Timer(ctx, "app", made.ID)
	require.NoError(t, err)
	require.Equal(t, timer.StatusActive, got.Status)
	require.EqualValues(t, 2, got.ActiveEpoch)
	require.GreaterOrEqual(t, got.ActiveSinceMS, last.Timer.PausedUntilMS)
	require.Empty(t, got.PauseReason)
	require.Zero(t, got.PausedUntilMS)
	for _, f := range fires {
		require.EqualValues(t, 2, f.Epoch)
	}
	changes, err := s.st().Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1, "it is logged like any activation")
	require.EqualValues(t, 2, changes[0].State.ActiveEpoch)

	s.pause(made, "x", until, plan)
	off := s.setStatus(made, timer.StatusInactive, plan)
	require.Empty(t, off.Timer.PauseReason)
	require.Zero(t, off.Timer.PausedUntilMS)
}

// statusConditions checks conditions against the locked row: a pause never replaces a deactivation.
func statusConditions(t *testing.T, s *setup) {
	ctx := t.Context()
	made := s.create(s.newTimer(), noFires).Timer
	change := func(c store.StatusChange) store.StatusResult {
		t.Helper()
		c.App, c.ID = made.App, made.ID
		out, err := s.st().SetStatus(ctx, []store.StatusChange{c}, noFires)
		require.NoError(t, err)
		return out[0]
	}
	pause := store.StatusChange{
		Status:  timer.StatusPaused,
		UntilMS: s.nowMS() + 1,
		From:    []timer.Status{timer.StatusActive, timer.StatusPaused},
	}
	refused := change(pause)
	requireCode(t, timer.CodeConflict, refused.Err)
	require.Zero(t, refused.Seq)
	require.Equal(t, made, refused.Timer)
	requireCode(
		t,
		timer.CodeConflict,
		change(store.StatusChange{Status: timer.StatusActive, IfVersion: 2}).Err,
	)
	got, err := s.st().Timer(ctx, made.App, made.ID)
	require.NoError(t, err)
	require.Equal(t, made, got, "a refused change writes nothing")
	require.NoError(t, change(store.StatusChange{Status: timer.StatusActive, IfVersion: 1}).Err)

	for range 20 {
		require.NoError(t, change(store.StatusChange{Status: timer.StatusActive}).Err)
		s.together(2, func(ctx context.Context, n int, st store.Store) error {
			c := pause
			if n == 0 {
				c = store.StatusChange{Status: timer.StatusInactive}
			}
			c.App, c.ID = made.App, made.ID
			_, err := st.SetStatus(ctx, []store.StatusChange{c}, noFires)
			return err
		})
		got, err := s.st().Timer(ctx, made.App, made.ID)
		require.NoError(t, err)
		require.Equal(t, timer.StatusInactive, got.Status)
	}
}

func concurrentResumes(t *testing.T, s *setup) {
	const timers = 30
	plan := grid(10*time.Minute, 1000)
	var made []timer.Timer
	for range timers {
		tm := s.gridTimer(gridDefinition(time.Minute), plan).Timer
		s.pause(tm, "", s.nowMS()-1, plan)
		made = append(made, tm)
	}
	s.together(6, func(ctx context.Context, _ int, st store.Store) error {
		for {
			if _, n, err := st.Expand(ctx, 7, plan); err != nil || n == 0 {
				return err
			}
		}
	})
	s.expandDue(plan)
	for _, tm := range made {
		got, err := s.st().Timer(t.Context(), "app", tm.ID)
		require.NoError(t, err)
		require.EqualValues(t, 2, got.ActiveEpoch, "resumed once")
		require.Equal(t, timer.StatusActive, got.Status)
	}
}

func freezesAreLogged(t *testing.T, s *setup) {
	ctx := t.Context()
	_, err := s.st().App(ctx, "app")
	requireCode(t, timer.CodeNotFound, err)
	tm := s.create(s.newTimer(), noFires).Timer
	app, err := s.st().App(ctx, "app")
	require.NoError(t, err)
	require.Equal(t, store.App{ID: tm.AppID, Name: "app"}, app)

	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	frozen, err := s.st().SetFrozen(ctx, "app", true, "bill")
	require.NoError(t, err)
	require.True(t, frozen.Frozen)
	require.Equal(t, "bill", frozen.Reason)
	require.InDelta(t, s.nowMS(), frozen.FrozenMS, 10_000)
	state := func() timer.State {
		t.Helper()
		states, err := s.st().States(ctx, []timer.ID{tm.ID})
		require.NoError(t, err)
		return states[0]
	}
	require.True(t, state().Frozen)
	changes := func() []store.Change {
		t.Helper()
		out, err := s.st().Changes(ctx, before, 10)
		require.NoError(t, err)
		return out
	}
	log := changes()
	require.Len(t, log, 1)
	require.Equal(
		t,
		store.Change{Seq: log[0].Seq, AtMS: log[0].AtMS, AppID: tm.AppID, Frozen: true},
		log[0],
	)

	again, err := s.st().SetFrozen(ctx, "app", true, "bills")
	require.NoError(t, err)
	require.Equal(t, frozen.FrozenMS, again.FrozenMS)
	require.Equal(t, "bills", again.Reason)
	require.Len(t, changes(), 1, "it was frozen before")
	s.setStatus(tm, timer.StatusActive, noFires)
	log = changes()
	require.Len(t, log, 2)
	require.True(t, log[1].State.Frozen)
	require.Zero(t, log[1].AppID)

	free, err := s.st().SetFrozen(ctx, "app", false, "paid")
	require.NoError(t, err)
	require.Equal(t, app, free)
	got, err := s.st().App(ctx, "app")
	require.NoError(t, err)
	require.Equal(t, app, got)
	require.False(t, state().Frozen)
	require.False(t, changes()[2].Frozen)

	// An unknown app is not created.
	for _, frozen := range []bool{true, false} {
		_, err = s.st().SetFrozen(ctx, "new", frozen, "")
		requireCode(t, timer.CodeNotFound, err)
		if !s.NoDryRuns {
			_, err = s.st().SetFrozen(store.WithDryRun(ctx), "new", frozen, "")
			requireCode(t, timer.CodeNotFound, err)
		}
	}
	requireNoApp(t, s, "new")
	s.together(8, func(ctx context.Context, i int, st store.Store) error {
		_, err := st.SetFrozen(ctx, "app", true, "")
		return err
	})
	require.Len(t, changes(), 4, "one timer for equal requests")
}

// freezesOfNewApps freezes an app beside its first write: one of the two comes first.
func freezesOfNewApps(t *testing.T, s *setup) {
	for i := range 8 {
		app := fmt.Sprint("at once", i)
		var frozen atomic.Bool
		s.together(2, func(ctx context.Context, n int, st store.Store) error {
			if n == 0 {
				_, err := st.PutSettings(ctx, app, store.AppSettings{Rate: 1}, 0)
				return err
			}
			_, err := st.SetFrozen(ctx, app, true, "")
			if frozen.Store(err == nil); timer.CodeOf(err) == timer.CodeNotFound {
				return nil
			}
			return err
		})
		got, err := s.st().App(t.Context(), app)
		require.NoError(t, err)
		require.Equal(t, frozen.Load(), got.Frozen)
	}
}

// requireNoApp checks that nothing created an app.
func requireNoApp(t *testing.T, s *setup, name string) {
	t.Helper()
	_, err := s.st().App(t.Context(), name)
	requireCode(t, timer.CodeNotFound, err)
	all, err := s.st().ListApps(t.Context(), "", 100)
	require.NoError(t, err)
	for _, a := range all {
		require.NotEqual(t, name, a.Name)
	}
}

// frozenAppsTakeNoFires adds fires before and after a freeze.
func frozenAppsTakeNoFires(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	fire := func(series int64) []timer.Fire {
		return []timer.Fire{
			{
				FireID:  timer.FireID{Timer: tm.ID, DueMS: 1_900_000_000_000, Series: series},
				RunAtMS: 1_900_000_000_000,
				Cause:   timer.CauseRunNow,
			},
		}
	}
	_, err := s.st().AddFires(ctx, "app", tm.ID, fire(1))
	require.NoError(t, err)
	_, err = s.st().SetFrozen(ctx, "app", true, "")
	require.NoError(t, err)
	_, err = s.st().AddFires(ctx, "app", tm.ID, fire(2))
	requireCode(t, timer.CodeConflict, err)
	again, err := s.st().AddFires(ctx, "app", tm.ID, fire(1))
	require.NoError(t, err, "the call from before, repeated")
	require.Empty(t, again)

	// Of a freeze and a request at once, one comes first.
	for i := range int64(20) {
		_, err := s.st().SetFrozen(ctx, "app", false, "")
		require.NoError(t, err)
		var added atomic.Bool
		s.together(2, func(ctx context.Context, n int, st store.Store) error {
			if n == 0 {
				_, err := st.SetFrozen(ctx, "app", true, "")
				return err
			}
			fires, err := st.AddFires(ctx, "app", tm.ID, fire(10+i))
			added.Store(len(fires) == 1)
			if timer.CodeOf(err) == timer.CodeConflict {
				return nil
			}
			return err
		})
		_, err = s.st().Fire(ctx, "app", fire(10 + i)[0].FireID)
		if added.Load() {
			require.NoError(t, err)
		} else {
			requireCode(t, timer.CodeNotFound, err)
		}
	}
}

// skipsAreOutcomes plans misfires that get no fire.
func skipsAreOutcomes(t *testing.T, s *setup) {
	ctx := t.Context()
	now := s.nowMS()
	base := now - time.Hour.Milliseconds()
	skip := func(id timer.ID, from, until, count int64) timer.Outcome {
		return timer.Outcome{
			Fire: timer.Fire{
				FireID:  timer.FireID{Timer: id, DueMS: base + from},
				RunAtMS: base + from,
			},
			Reason:  timer.ReasonMisfired,
			UntilMS: base + until,
			Count:   count,
		}
	}
	fire := func(id timer.ID, at int64) timer.Fire {
		return timer.Fire{FireID: timer.FireID{Timer: id, DueMS: base + at}, RunAtMS: base + at}
	}
	start := func(*timer.Timer, int64) store.Plan { return store.Plan{NextDueMS: base, ExpandAtMS: now} }
	made := s.gridTimer(gridDefinition(time.Minute), start).Timer
	fires := s.expandDue(func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{
			Fires: []timer.Fire{
				fire(t.ID, 500),
				fire(t.ID, 2000),
			},
			Skips:      []timer.Outcome{skip(t.ID, 600, 1900, 14), skip(t.ID, 0, 400, 5)},
			NextDueMS:  base + 2001,
			ExpandAtMS: nowMS + time.Hour.Milliseconds(),
		}
	})
	require.Len(t, fires, 2)
	got, err := s.st().Timer(ctx, "app", made.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.FiresCreated, "a stretch is not called")
	history, err := s.st().History(ctx, "app", made.ID, timer.FireID{}, 10)
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, base+600, history[0].DueMS)
	require.Equal(t, base+1900, history[0].UntilMS)
	require.EqualValues(t, 14, history[0].Count)
	require.Equal(t, timer.Skipped, history[0].Kind)
	require.Equal(t, timer.ReasonMisfired, history[0].Reason)
	require.InDelta(t, now, history[0].FinishedMS, 10_000)
	require.Equal(t, made.AppID, history[0].AppID)

	skips := func(more ...timer.Outcome) store.Plan {
		return store.Plan{Skips: more, NextDueMS: base + 9000}
	}
	for name, plan := range map[string]func(id timer.ID) store.Plan{
		"before":  func(id timer.ID) store.Plan { return skips(skip(id, -2, -1, 1)) },
		"beyond":  func(id timer.ID) store.Plan { return skips(skip(id, 3000, 9000, 1)) },
		"overlap": func(id timer.ID) store.Plan { return skips(skip(id, 3000, 5000, 2), skip(id, 5000, 6000, 2)) },
		"over a fire": func(id timer.ID) store.Plan {
			p := skips(skip(id, 3000, 5000, 2))
			p.Fires = []timer.Fire{fire(id, 4000)}
			return p
		},
		"none": func(id timer.ID) store.Plan { return skips(skip(id, 3000, 5000, 0)) },
	} {
		bad := s.gridTimer(gridDefinition(time.Minute), start).Timer
		off := s.setStatus(bad, timer.StatusInactive,
			func(t *timer.Timer, _ int64) store.Plan { return plan(t.ID) })
		require.Zero(t, off.Timer.FiresCreated, name)
		kept, err := s.st().History(ctx, "app", bad.ID, timer.FireID{}, 10)
		require.NoError(t, err)
		require.Empty(t, kept, "a refused plan writes nothing")
	}

	// A timer that is deactivated takes what is due up to now.
	off := s.setStatus(made, timer.StatusInactive, func(t *timer.Timer, nowMS int64) store.Plan {
		if t.NextDueMS > base+5001 {
			return store.Plan{NextDueMS: t.NextDueMS}
		}
		return store.Plan{
			Fires: []timer.Fire{
				fire(t.ID, 5001),
				fire(t.ID, nowMS-base+9000),
			},
			Skips:     []timer.Outcome{skip(t.ID, 3000, 5000, 2)},
			NextDueMS: nowMS + 9001,
		}
	})
	require.Len(t, off.Fires, 1)
	require.Equal(t, got.FiresCreated+1, off.Timer.FiresCreated)
	require.Greater(t, off.Timer.NextDueMS, now)
}
