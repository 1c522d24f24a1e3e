package storetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// stretches returns when a timer was not active.
func (s *setup) stretches(id timer.ID) []timer.Inactivity {
	s.t.Helper()
	all, err := s.st().Inactivities(s.t.Context(), []timer.ID{id, id + 1})
	require.NoError(s.t, err)
	require.LessOrEqual(s.t, len(all), 1)
	return all[id]
}

// timer reads a timer.
func (s *setup) timer(id timer.ID) timer.Timer {
	s.t.Helper()
	tm, err := s.st().Timer(s.t.Context(), "app", id)
	require.NoError(s.t, err)
	return tm
}

// until waits for an instant of the store's clock.
func (s *setup) until(ms int64) {
	s.t.Helper()
	require.Eventually(
		s.t,
		func() bool { return s.nowMS() >= ms },
		10*time.Second,
		time.Millisecond,
	)
}

// stretchesAreRecorded sets each status of a timer in turn.
func stretchesAreRecorded(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 1000)
	tm := s.gridTimer(gridDefinition(time.Minute), plan).Timer
	require.Empty(t, s.stretches(tm.ID))

	off := s.setStatus(tm, timer.StatusInactive, plan).Timer
	require.Equal(
		t,
		[]timer.Inactivity{
			{FromMS: off.InactiveSinceMS, UntilMS: timer.NeverMS, Status: timer.StatusInactive},
		},
		s.stretches(tm.ID),
	)
	states, err := s.st().States(t.Context(), []timer.ID{tm.ID})
	require.NoError(t, err)
	require.Equal(t, off.InactiveSinceMS, states[0].InactiveSinceMS)
	s.until(off.InactiveSinceMS + 1)
	on := s.setStatus(tm, timer.StatusActive, plan).Timer
	require.Zero(t, on.InactiveSinceMS)
	first := timer.Inactivity{
		FromMS:  off.InactiveSinceMS,
		UntilMS: on.ActiveSinceMS,
		Status:  timer.StatusInactive,
	}
	require.Equal(t, []timer.Inactivity{first}, s.stretches(tm.ID))

	// Each change of status begins a stretch where the one before ends.
	s.until(on.ActiveSinceMS + 1)
	until := s.nowMS() + time.Hour.Milliseconds()
	paused := s.pause(tm, "a", until, plan).Timer
	s.until(paused.InactiveSinceMS + 1)
	longer := s.pause(tm, "b", until+1, plan).Timer
	s.until(longer.InactiveSinceMS + 1)
	last := s.setStatus(tm, timer.StatusInactive, plan).Timer
	require.Equal(t, []timer.Inactivity{
		first,
		{
			FromMS:  paused.InactiveSinceMS,
			UntilMS: longer.InactiveSinceMS,
			Status:  timer.StatusPaused,
		},
		{FromMS: longer.InactiveSinceMS, UntilMS: last.InactiveSinceMS, Status: timer.StatusPaused},
		{FromMS: last.InactiveSinceMS, UntilMS: timer.NeverMS, Status: timer.StatusInactive},
	}, s.stretches(tm.ID))
}

// pausesEndAtTheirInstant checks that a timer was active from the end of its pause on, whichever process
// notices the end first, and however late.
func pausesEndAtTheirInstant(t *testing.T, s *setup) {
	const step = 10 * time.Millisecond
	plan := grid(time.Second, 1000)
	for name, notice := range map[string]func(timer.Timer) []timer.Fire{
		"expand":     func(timer.Timer) []timer.Fire { return s.expandDue(plan) },
		"resume":     func(tm timer.Timer) []timer.Fire { return s.setStatus(tm, timer.StatusActive, plan).Fires },
		"pause":      func(tm timer.Timer) []timer.Fire { return s.pause(tm, "again", 0, plan).Fires },
		"deactivate": func(tm timer.Timer) []timer.Fire { return s.setStatus(tm, timer.StatusInactive, plan).Fires },
		"edit": func(tm timer.Timer) []timer.Fire {
			return s.edit(tm, gridDefinition(3*step), plan).Fires
		},
	} {
		none := func(tm *timer.Timer, _ int64) store.Plan {
			return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: timer.NeverMS}
		}
		var tm, paused timer.Timer
		var until int64
		// On a slow server, a short pause may be over before it begins.
		for ms := int64(200); until <= paused.InactiveSinceMS; ms *= 2 {
			tm = s.gridTimer(gridDefinition(step), none).Timer
			until = s.nowMS() + ms
			paused = s.pause(tm, "short", until, none).Timer
		}
		s.until(until + 300)
		before, err := s.st().LastChange(t.Context())
		require.NoError(t, err)
		fires := notice(tm)
		require.Equal(
			t,
			timer.Inactivity{
				FromMS:  paused.InactiveSinceMS,
				UntilMS: until,
				Status:  timer.StatusPaused,
			},
			s.stretches(tm.ID)[0],
			name,
		)
		changes, err := s.st().Changes(t.Context(), before, 10)
		require.NoError(t, err)
		require.NotEmpty(t, changes, name)
		got := s.timer(tm.ID)
		require.EqualValues(t, 2, got.ActiveEpoch, name)
		require.Equal(t, until, got.ActiveSinceMS, name)
		dues := map[int64]bool{}
		for _, f := range fires {
			if f.Timer == tm.ID {
				dues[f.DueMS] = true
			}
		}
		for due := (until + 9) / 10 * 10; due < until+300; due += step.Milliseconds() {
			require.True(t, dues[due], "%s: due %d ms after the end", name, due-until)
		}
		for due := range dues {
			require.GreaterOrEqual(t, due, until, name)
		}
		s.setStatus(tm, timer.StatusDeleted, plan)
	}
}

// oneShot is due once, at an instant.
func oneShot(atMS int64) timer.Definition {
	d := definition("http://a")
	at := time.UnixMilli(atMS).UTC()
	d.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at}
	return d
}

// planOneShot plans what oneShot says.
func planOneShot(t *timer.Timer, _ int64) store.Plan {
	p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
	if t.NextDueMS != timer.NeverMS {
		due := t.Definition.Schedule.At.UnixMilli()
		p.Fires = []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}}
	}
	return p
}

// dueOneShotsAreNotPlannedAgain edits one-shots that have come due. Only a new instant is due again.
func dueOneShotsAreNotPlannedAgain(t *testing.T, s *setup) {
	plan := func(t *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		if t.NextDueMS != timer.NeverMS { // what has passed is due at once
			due := max(t.Definition.Schedule.At.UnixMilli(), t.NextDueMS)
			p.Fires = []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}}
		}
		return p
	}
	session := s.session()
	for _, state := range []string{"delivered", "claimed", "open"} {
		due := s.nowMS() - 1000
		made := s.gridTimer(oneShot(due), plan)
		require.Len(t, made.Fires, 1, state)
		if state != "open" {
			won := s.claim(session, made.Fires)
			require.Len(t, won, 1)
			if state == "delivered" {
				o := timer.Outcome{
					Fire:       won[0],
					Kind:       timer.Delivered,
					UntilMS:    due,
					Count:      1,
					FinishedMS: s.nowMS(),
				}
				lost, _ := s.record(session, o)
				require.Empty(t, lost)
			}
		}
		d := oneShot(due)
		d.Schedule.Jitter = timer.Duration(time.Second)
		require.Empty(t, s.edit(made.Timer, d, plan).Fires, state)
		d.Misfire.Grace = timer.Duration(time.Minute)
		edited := s.edit(made.Timer, d, plan)
		require.Empty(t, edited.Fires, state)
		require.EqualValues(t, 1, edited.Timer.FiresCreated, state)
		require.EqualValues(t, 3, edited.Timer.Version, state)
		if state == "claimed" { // see dueOneShotsAreMovedOnce
			continue
		}
		require.Len(
			t,
			s.edit(made.Timer, oneShot(due+time.Hour.Milliseconds()), plan).Fires,
			1,
			state,
		)
	}
}

// dueOneShotsAreMovedOnce moves one-shots that have come due. Of the two instants one is called:
// the old one if an executor has the fire or has called it, then the edit is refused.
func dueOneShotsAreMovedOnce(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	due := s.nowMS() - 1000
	later := due + time.Hour.Milliseconds()
	release := func(state timer.FireState, attempt int32) func(*store.CreateResult) {
		return func(made *store.CreateResult) {
			f := s.claim(session, made.Fires)[0]
			f.State, f.Attempt, f.RunAtMS = state, attempt, later
			_, err := s.st().Release(ctx, session, []timer.Fire{f}, nil)
			require.NoError(t, err)
		}
	}
	for name, c := range map[string]struct {
		become  func(made *store.CreateResult)
		refused bool
	}{
		"open":     {become: func(*store.CreateResult) {}},
		"limited":  {become: release(timer.FireDeferred, 0)},
		"queued":   {become: release(timer.FireWaiting, 0)},
		"claimed":  {become: func(m *store.CreateResult) { s.claim(session, m.Fires) }, refused: true},
		"retried":  {become: release(timer.FireRetrying, 1), refused: true},
		"accepted": {become: release(timer.FireAccepted, 1), refused: true},
		"paused": {become: func(m *store.CreateResult) {
			s.setStatus(m.Timer, timer.StatusPaused, planOneShot)
		}},
	} {
		made := s.gridTimer(oneShot(due), planOneShot)
		require.Len(t, made.Fires, 1, name)
		c.become(&made)
		out, err := s.st().Edit(
			ctx,
			[]store.Edit{{App: "app", ID: made.Timer.ID, Definition: oneShot(later)}},
			planOneShot,
		)
		require.NoError(t, err, name)
		old, err := s.st().Fire(ctx, "app", made.Fires[0].FireID)
		require.NoError(t, err)
		if c.refused {
			requireCode(t, timer.CodeConflict, out[0].Err)
			require.NotNil(t, old.Open, name)
			require.EqualValues(t, 1, s.timer(made.Timer.ID).Version, name)
			continue
		}
		require.NoError(t, out[0].Err, name)
		require.Nil(t, old.Open, name)
		require.Equal(t, timer.ReasonSuperseded, old.Outcome.Reason, name)
		fires := out[0].Fires
		if name == "paused" {
			fires = s.setStatus(made.Timer, timer.StatusActive, planOneShot).Fires
		}
		require.Len(t, fires, 1, name)
		require.Equal(t, later, fires[0].DueMS, name)
	}

	// An instant for which migrators have made no fire yet is recorded as superseded, too.
	behind := func(tm *timer.Timer, nowMS int64) store.Plan {
		if tm.Version == 1 && tm.NextDueMS == 0 {
			return store.Plan{NextDueMS: due, ExpandAtMS: due}
		}
		return planOneShot(tm, nowMS)
	}
	made := s.gridTimer(oneShot(due), behind)
	require.Empty(t, made.Fires)
	edited := s.edit(made.Timer, oneShot(later), behind)
	require.Len(t, edited.Fires, 1)
	require.Equal(t, later, edited.Fires[0].DueMS)
	require.EqualValues(t, 1, edited.Timer.FiresCreated)
	rec, err := s.st().Fire(ctx, "app", timer.FireID{Timer: made.Timer.ID, DueMS: due})
	require.NoError(t, err)
	require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)

	// A one-shot that becomes recurring is called for what it was due.
	made = s.gridTimer(oneShot(due), planOneShot)
	s.edit(made.Timer, gridDefinition(time.Minute), func(tm *timer.Timer, nowMS int64) store.Plan {
		if tm.Definition.Schedule.Kind.OneShot() {
			return planOneShot(tm, nowMS)
		}
		return grid(5*time.Minute, 10)(tm, nowMS)
	})
	rec, err = s.st().Fire(ctx, "app", made.Fires[0].FireID)
	require.NoError(t, err)
	require.NotNil(t, rec.Open)
}

// movedOneShotsKeepTheirAttempts moves a one-shot between two attempts, while its timer is paused.
func movedOneShotsKeepTheirAttempts(t *testing.T, s *setup) {
	session := s.session()
	made := s.gridTimer(oneShot(s.nowMS()-1000), planOneShot)
	f := s.claim(session, made.Fires)[0]
	f.State, f.Attempt, f.FirstLatenessMS, f.RunAtMS = timer.FireRetrying, 1, 5, s.nowMS()
	released, err := s.st().Release(t.Context(), session, []timer.Fire{f}, nil)
	require.NoError(t, err)
	s.setStatus(made.Timer, timer.StatusPaused, planOneShot)
	won := s.claim(session, released)
	require.Len(t, won, 1)
	active, err := s.st().Defer(t.Context(), session, []store.Deferral{deferral(won[0])})
	require.NoError(t, err)
	require.Empty(t, active)
	s.edit(made.Timer, oneShot(s.nowMS()+time.Hour.Milliseconds()), planOneShot)
	rec, err := s.st().Fire(t.Context(), "app", f.FireID)
	require.NoError(t, err)
	require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)
	require.EqualValues(t, 1, rec.Outcome.Attempts)
	require.EqualValues(t, 5, rec.Outcome.LatenessMS)
}

// oneShotsAreMovedBack moves one-shots to another instant and back, to one that comes soon and to
// one that does not: the fire is open again, and has no outcome until it is recorded.
func oneShotsAreMovedBack(t *testing.T, s *setup) {
	for _, ahead := range []time.Duration{30 * time.Second, 10 * time.Minute} {
		due := s.nowMS() + ahead.Milliseconds()
		made := s.gridTimer(oneShot(due), planOneShot)
		s.edit(made.Timer, oneShot(due+time.Hour.Milliseconds()), planOneShot)
		rec, err := s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
		require.NoError(t, err)
		require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)
		back := s.edit(made.Timer, oneShot(due), planOneShot)
		require.Len(t, back.Fires, 1)
		require.Equal(t, made.Fires[0].FireID, back.Fires[0].FireID)
		require.EqualValues(t, 1, back.Timer.FiresCreated)
		rec, err = s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
		require.NoError(t, err)
		require.Nil(t, rec.Outcome)
		require.EqualValues(t, 3, rec.Open.Version)
		session := s.session()
		won := s.claim(session, back.Fires)
		require.Len(t, won, 1)
		lost, _ := s.record(session, delivered(won[0], s.nowMS()))
		require.Empty(t, lost)
		all, err := s.st().History(t.Context(), "app", made.Timer.ID, timer.FireID{}, 10)
		require.NoError(t, err)
		of := slices.DeleteFunc(all, func(o timer.Outcome) bool { return o.DueMS != due })
		require.Len(t, of, 1)
		require.Equal(t, timer.Delivered, of[0].Kind)
	}
}

// oneShotsAreMovedOnce moves one-shots, also due ones, while executors claim them. A claimed one
// stays, and one that was moved cannot be claimed at its old instant.
func oneShotsAreMovedOnce(t *testing.T, s *setup) {
	const rounds = 20
	session := s.session()
	for round := range rounds {
		due := s.nowMS() + time.Hour.Milliseconds()
		to := due + 1000
		if round%2 == 1 {
			due = s.nowMS() - 1000
		}
		made := s.gridTimer(oneShot(due), planOneShot)
		require.Len(t, made.Fires, 1)
		var won []timer.Fire
		var edited store.EditResult
		s.together(2, func(ctx context.Context, n int, st store.Store) (err error) {
			if n == 0 {
				won, err = st.Claim(ctx, session, made.Fires)
				return err
			}
			out, err := st.Edit(
				ctx,
				[]store.Edit{{App: "app", ID: made.Timer.ID, Definition: oneShot(to)}},
				planOneShot,
			)
			if err == nil {
				edited = out[0]
			}
			return err
		})
		old, err := s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
		require.NoError(t, err)
		if len(won) == 1 {
			requireCode(t, timer.CodeConflict, edited.Err)
			require.NotNil(t, old.Open)
			require.Equal(
				t,
				made.Timer.Version,
				s.timer(made.Timer.ID).Version,
				"a refused edit changes nothing",
			)
			continue
		}
		require.NoError(t, edited.Err)
		require.Equal(t, timer.Skipped, old.Outcome.Kind)
		require.Equal(t, timer.ReasonSuperseded, old.Outcome.Reason)
		require.Len(t, edited.Fires, 1)
		require.Equal(t, to, edited.Fires[0].DueMS)
		require.Len(t, s.claim(session, edited.Fires), 1)
	}
	// A one-shot that keeps its instant keeps its fire.
	due := s.nowMS() + time.Hour.Milliseconds()
	made := s.gridTimer(oneShot(due), planOneShot)
	d := oneShot(due)
	d.Schedule.Jitter = timer.Duration(time.Second)
	s.edit(made.Timer, d, planOneShot)
	rec, err := s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
	require.NoError(t, err)
	require.NotNil(t, rec.Open)
	require.EqualValues(t, 2, rec.Open.Version)
}

// deferral defers a claimed fire until its timer is active.
func deferral(f timer.Fire) store.Deferral {
	return store.Deferral{Fire: f, RunAtMS: timer.DeferredMS}
}

func deferredFiresWait(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	due := s.nowMS() - 5000
	fires := s.fires(4, due)
	won := s.claim(session, fires)
	require.Len(t, won, 4)
	tms := make([]timer.Timer, len(won))
	for i, f := range won {
		tms[i] = s.timer(f.Timer)
	}
	active, err := s.st().Defer(ctx, session, []store.Deferral{deferral(won[0])})
	require.NoError(t, err)
	require.Equal(t, ids(won[:1]), active, "its timer is active: it stays where it is")
	for i := range tms {
		s.pause(tms[i], "", 0, noFires)
	}
	stale := won[1]
	stale.Rev--
	active, err = s.st().Defer(ctx, session, []store.Deferral{deferral(won[0]), deferral(stale)})
	require.NoError(t, err)
	require.Empty(t, active)
	active, err = s.st().Defer(ctx, session, []store.Deferral{deferral(won[0])})
	require.NoError(t, err)
	require.Empty(t, active, "a repeated call defers nothing again")
	owned, err := s.st().Owned(ctx, []timer.ID{session}, 0, s.nowMS(), 10)
	require.NoError(t, err)
	require.Equal(t, ids(won[1:]), ids(owned))
	rec, err := s.st().Fire(ctx, "app", won[0].FireID)
	require.NoError(t, err)
	require.Equal(t, timer.DeferredMS, rec.Open.RunAtMS)
	require.Equal(t, won[0].Rev+1, rec.Open.Rev)
	require.Empty(t, s.claim(session, won[:1]), "an older task has no effect")

	// It gets its run_at back when the timer is active, once.
	on := s.setStatus(tms[0], timer.StatusActive, noFires)
	require.Len(t, on.Fires, 1)
	require.Equal(t, won[0].FireID, on.Fires[0].FireID)
	require.Equal(t, won[0].RunAtMS, on.Fires[0].RunAtMS)
	require.Len(t, s.claim(session, on.Fires), 1)
	s.setStatus(tms[0], timer.StatusInactive, noFires)
	require.Empty(t, s.setStatus(tms[0], timer.StatusActive, noFires).Fires)

	// A fire that ran before its timer was activated stays as it is, whether claimed or released
	// since.
	until := deferral(won[1])
	until.RunAtMS = due + 1
	_, err = s.st().Defer(ctx, session, []store.Deferral{until, deferral(won[2])})
	require.NoError(t, err)
	again := until.Fire
	again.RunAtMS, again.Rev = until.RunAtMS, again.Rev+1
	claimed := s.claim(session, []timer.Fire{again})
	require.Len(t, claimed, 1)
	retry := claimed[0]
	retry.State, retry.Attempt, retry.RunAtMS = timer.FireRetrying, 1, s.nowMS()+time.Minute.Milliseconds()
	released, err := s.st().Release(ctx, session, []timer.Fire{retry}, nil)
	require.NoError(t, err)
	require.Len(t, released, 1)
	require.Empty(t, s.setStatus(tms[1], timer.StatusActive, noFires).Fires)
	rec, err = s.st().Fire(ctx, "app", retry.FireID)
	require.NoError(t, err)
	require.Equal(t, retry.RunAtMS, rec.Open.RunAtMS)

	// The deferred fires of a deleted timer are released, to be skipped.
	gone := s.setStatus(tms[2], timer.StatusDeleted, noFires)
	require.Equal(t, ids(won[2:3]), ids(gone.Fires))

	// A fire whose timer is deleted already stays with the session, which skips it.
	s.setStatus(tms[3], timer.StatusDeleted, noFires)
	kept, err := s.st().Defer(ctx, session, []store.Deferral{deferral(won[3])})
	require.NoError(t, err)
	require.Equal(t, ids(won[3:]), kept)
}

// concurrentDeferrals defers fires while their timers are activated and deactivated. None is lost,
// whichever comes first.
func concurrentDeferrals(t *testing.T, s *setup) {
	session := s.session()
	fires := s.claim(session, s.fires(40, s.nowMS()-5000))
	tms := make([]timer.Timer, len(fires))
	for i, f := range fires {
		tms[i] = s.timer(f.Timer)
		s.setStatus(tms[i], timer.StatusInactive, noFires)
	}
	var mu sync.Mutex
	back := map[timer.FireID]bool{}
	s.together(4, func(ctx context.Context, n int, st store.Store) error {
		for _, i := range rand.Perm(len(fires)) {
			if n%2 == 0 {
				active, err := st.Defer(ctx, session, []store.Deferral{deferral(fires[i])})
				if err != nil {
					return err
				}
				mu.Lock()
				for _, id := range active {
					back[id] = true // the session still owns it
				}
				mu.Unlock()
				continue
			}
			out, err := st.SetStatus(
				ctx,
				[]store.StatusChange{{App: "app", ID: tms[i].ID, Status: timer.StatusActive}},
				noFires,
			)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, f := range out[0].Fires {
				back[f.FireID] = true
			}
			mu.Unlock()
		}
		return nil
	})
	require.Len(t, back, len(fires))
}
