package storetest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// pages is gridUntil with few fires in each plan.
func pages(endMS int64) store.Planner {
	const most = 150 // fires
	return func(t *timer.Timer, nowMS int64) store.Plan { return planGrid(t, nowMS, endMS, most) }
}

// denseTimer creates a timer with an open fire each second up to an instant in ten minutes.
func (s *setup) denseTimer() (made store.CreateResult, endMS int64) {
	s.t.Helper()
	endMS = s.nowMS() + 10*timer.MinuteMS
	made = s.gridTimer(gridDefinition(time.Second), gridUntil(endMS))
	require.Greater(s.t, len(made.Fires), 590)
	return made, endMS
}

// continueReplans does all pages. Each is done by another store, if there are several.
func (s *setup) continueReplans(plan store.Planner) (fires []timer.Fire) {
	s.t.Helper()
	for n := 0; ; n++ {
		page, more, err := s.Stores[n%len(s.Stores)].ContinueReplans(s.t.Context(), plan)
		require.NoError(s.t, err)
		if fires = append(fires, page...); !more {
			return fires
		}
	}
}

// replanning returns those of the fires that no follow-up has reached.
func (s *setup) replanning(fires []timer.Fire) map[timer.FireID]bool {
	s.t.Helper()
	undecided, err := s.st().Replanning(s.t.Context(), ids(fires))
	require.NoError(s.t, err)
	out := map[timer.FireID]bool{}
	for _, id := range undecided {
		out[id] = true
	}
	return out
}

// requireDecided checks that a follow-up has ended: the timer has the grid of its version, and
// counts the fires of the grid and those before.
func (s *setup) requireDecided(made store.CreateResult, every time.Duration, endMS int64) {
	s.t.Helper()
	tm, err := s.st().Timer(s.t.Context(), "app", made.Timer.ID)
	require.NoError(s.t, err)
	open := s.openOf(tm.ID)
	present, older := byVersion(open, tm.Version)
	requireGrid(s.t, present, every, tm.VersionMS+1, endMS+1)
	for _, f := range older {
		require.True(s.t, f.DueMS <= tm.VersionMS || f.DueMS%every.Milliseconds() != 0, f.FireID)
	}
	require.Empty(s.t, s.replanning(open))
}

func editIsContinued(t *testing.T, s *setup) {
	made, end := s.denseTimer()
	d := gridDefinition(2 * time.Second)
	d.Schedule.Jitter = timer.Duration(300 * time.Millisecond)
	edited := s.edit(made.Timer, d, pages(end))
	at, next := edited.Timer.VersionMS, edited.Timer.NextDueMS
	require.LessOrEqual(t, next, at+20_000, "the edit plans the next seconds only")
	undecided := s.replanning(s.openOf(made.Timer.ID))
	var past int64
	for _, f := range made.Fires {
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		if f.DueMS <= at {
			past++
		}
		require.Equal(t, f.DueMS >= next, undecided[f.FireID])
		require.Equal(t, f.DueMS > at && f.DueMS < next && f.DueMS%2000 == 0, rec.Open.Version == 2)
	}
	require.Equal(t, past+int64(len(edited.Fires)), edited.Timer.FiresCreated)

	moved := s.continueReplans(pages(end))
	s.requireDecided(made, 2*time.Second, end)
	for _, f := range moved {
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
		require.Equal(t, f.DueMS+300, f.RunAtMS)
	}
	tm, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.Equal(t, past+int64(len(edited.Fires)+len(moved)), tm.FiresCreated)
	require.Empty(t, s.continueReplans(pages(end)))
}

// supersededOnlyIfDecided records fires before the follow-up has reached them.
func supersededOnlyIfDecided(t *testing.T, s *setup) {
	made, end := s.denseTimer()
	session := s.session()
	n := len(made.Fires)
	held := s.claim(session, made.Fires[n-40:])
	require.Len(t, held, 40)
	edited := s.edit(made.Timer, gridDefinition(2*time.Second), pages(end))
	superseded := func(f timer.Fire) timer.Outcome {
		return timer.Outcome{
			Fire:       f,
			Kind:       timer.Skipped,
			Reason:     timer.ReasonSuperseded,
			FinishedMS: s.nowMS(),
			UntilMS:    f.DueMS,
			Count:      1,
		}
	}
	for _, f := range held {
		lost, _ := s.record(session, superseded(f))
		require.Equal(t, []timer.FireID{f.FireID}, lost, "the new version may have it")
	}
	// A call by the new version needs no decision.
	called := held[0]
	if called.DueMS%2000 != 0 {
		called = held[1]
	}
	called.Version = edited.Timer.Version
	lost, _ := s.record(session, delivered(called, s.nowMS()))
	require.Empty(t, lost)

	s.continueReplans(pages(end))
	for _, f := range held {
		if f.FireID == called.FireID {
			continue
		}
		lost, _ := s.record(session, superseded(f))
		require.Equal(t, f.DueMS%2000 == 0, len(lost) > 0)
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		if f.DueMS%2000 != 0 {
			require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)
		} else {
			require.Equal(t, edited.Timer.Version, rec.Open.Version)
		}
	}
	rec, err := s.st().Fire(t.Context(), "app", called.FireID)
	require.NoError(t, err)
	require.Equal(t, timer.Delivered, rec.Outcome.Kind)
	require.Nil(t, rec.Open)
}

// calendarsAreContinued changes a calendar of timers with many fires, more than one plan has. What
// that plan has not reached is undecided, so nobody can skip it as superseded, however late the
// follow-up is.
func calendarsAreContinued(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	replan := map[string]func(timer.Timer){
		"expand": func(timer.Timer) { s.expandDue(pages(end)) },
		"resume": func(tm timer.Timer) { s.setStatus(tm, timer.StatusActive, pages(end)) },
		"end": func(tm timer.Timer) { // the call finds that the pause is over
			s.until(tm.PausedUntilMS)
			s.pause(tm, "again", 0, pages(end))
		},
	}
	d := gridDefinition(time.Second)
	d.Schedule.Calendars = []string{"work"}
	session := s.session()
	for name, replan := range replan {
		_, err := s.put("work", "", 0)
		require.NoError(t, err)
		made := s.gridTimer(d, gridUntil(end))
		tm := made.Timer
		switch name {
		case "resume":
			s.setStatus(tm, timer.StatusPaused, pages(end))
		case "end":
			tm = s.pause(tm, "short", s.nowMS()+300, pages(end)).Timer
		}
		_, err = s.put("work", "mon", 0)
		require.NoError(t, err)
		replan(tm)
		last := made.Fires[len(made.Fires)-1]
		require.True(t, s.replanning(made.Fires)[last.FireID], name)
		held := s.claim(session, []timer.Fire{last})
		require.Len(t, held, 1)
		lost, _ := s.record(session, timer.Outcome{
			Fire:       held[0],
			Kind:       timer.Skipped,
			Reason:     timer.ReasonSuperseded,
			FinishedMS: s.nowMS(),
			UntilMS:    last.DueMS,
			Count:      1,
		})
		require.Equal(t, ids(held), lost, name)

		s.setStatus(tm, timer.StatusActive, pages(end))
		s.continueReplans(pages(end))
		s.requireEvenMinutes(made)
		s.setStatus(tm, timer.StatusDeleted, pages(end))
	}
}

// requireEvenMinutes checks that all open fires are decided, and those of the present version are
// all that a calendar has which excludes odd minutes.
func (s *setup) requireEvenMinutes(made store.CreateResult) {
	s.t.Helper()
	require.Empty(s.t, s.replanning(made.Fires))
	tm := s.timer(made.Timer.ID)
	for _, f := range made.Fires {
		rec, err := s.st().Fire(s.t.Context(), "app", f.FireID)
		require.NoError(s.t, err)
		if f.DueMS > max(tm.VersionMS, tm.ActiveSinceMS) {
			even := f.DueMS/timer.MinuteMS%2 == 0
			require.Equal(
				s.t,
				even,
				rec.Open.Version == tm.Version,
				"%s of %d",
				f.FireID,
				tm.Version,
			)
		}
	}
}

// replansWithMaxFires replans timers with max_fires and many fires. They count their fires as they
// are planned, so all is decided at once.
func replansWithMaxFires(t *testing.T, s *setup) {
	const most = 450 // fires
	end := s.nowMS() + 10*timer.MinuteMS
	plan := pages(end)
	d := gridDefinition(time.Second)
	d.Schedule.Calendars, d.Schedule.MaxFires = []string{"work"}, most
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	expanded := s.gridTimer(d, gridUntil(end))
	resumed := s.gridTimer(d, gridUntil(end))
	require.Len(t, resumed.Fires, most)
	s.setStatus(resumed.Timer, timer.StatusPaused, plan)
	_, err = s.put("work", "mon", 0)
	require.NoError(t, err)
	s.setStatus(resumed.Timer, timer.StatusActive, plan)
	s.expandDue(plan)
	for _, made := range []store.CreateResult{expanded, resumed} {
		s.requireEvenMinutes(made)
		tm := s.timer(made.Timer.ID)
		present, older := byVersion(s.openOf(tm.ID), tm.Version)
		past := 0
		for _, f := range older {
			if f.DueMS <= tm.VersionMS {
				past++
			}
		}
		require.EqualValues(t, past+len(present), tm.FiresCreated)
	}

	// The same holds for an edit.
	d.Schedule.Calendars = nil
	made := s.gridTimer(d, gridUntil(end))
	d.Misfire.Grace = timer.Duration(time.Minute)
	edited := s.edit(made.Timer, d, plan)
	require.EqualValues(t, most, edited.Timer.FiresCreated)
	_, older := byVersion(s.openOf(made.Timer.ID), 2)
	for _, f := range older {
		require.LessOrEqual(t, f.DueMS, edited.Timer.VersionMS)
	}

	// So it does for an edit of many fires that sets max_fires: no follow-up comes after it.
	made, end = s.denseTimer()
	d = gridDefinition(time.Second)
	d.Schedule.MaxFires = 5000
	edited = s.edit(made.Timer, d, pages(end))
	_, older = byVersion(s.openOf(made.Timer.ID), 2)
	for _, f := range older {
		require.LessOrEqual(t, f.DueMS, edited.Timer.VersionMS)
	}
}

// editDuringFollowUp edits again before, between and after pages, and expands in between.
func editDuringFollowUp(t *testing.T, s *setup) {
	made, end := s.denseTimer()
	d := gridDefinition(2 * time.Second)
	s.edit(made.Timer, d, pages(end))
	_, more, err := s.st().ContinueReplans(t.Context(), pages(end))
	require.NoError(t, err)
	require.True(t, more)
	before := len(s.replanning(s.openOf(made.Timer.ID)))
	require.NotZero(t, before)
	d.Labels = map[string]string{"n": "1"}
	s.edit(made.Timer, d, pages(end))
	require.Len(t, s.replanning(s.openOf(made.Timer.ID)), before, "the schedule is the same")
	for _, seconds := range []int{3, 5, 1, 4, 2} {
		every := time.Duration(seconds) * time.Second
		s.edit(made.Timer, gridDefinition(every), pages(end))
		if seconds == 5 {
			continue
		}
		_, _, err := s.st().ContinueReplans(t.Context(), pages(end))
		require.NoError(t, err)
		_, _, err = s.st().Expand(t.Context(), 10, pages(end))
		require.NoError(t, err)
	}
	last := s.edit(made.Timer, gridDefinition(3*time.Second), pages(end))
	s.continueReplans(pages(end))
	tm, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.Equal(t, last.Timer.Version, tm.Version)
	s.requireDecided(made, 3*time.Second, end)
}

// followUpWaitsWhileInactive edits and deactivates.
func followUpWaitsWhileInactive(t *testing.T, s *setup) {
	made, end := s.denseTimer()
	s.edit(made.Timer, gridDefinition(2*time.Second), pages(end))
	s.setStatus(made.Timer, timer.StatusInactive, pages(end))
	require.Empty(t, s.continueReplans(pages(end)))
	s.edit(made.Timer, gridDefinition(3*time.Second), pages(end))
	require.Empty(t, s.continueReplans(pages(end)))
	require.NotEmpty(t, s.replanning(s.openOf(made.Timer.ID)))
	on := s.setStatus(made.Timer, timer.StatusActive, gridUntil(end))
	require.Greater(t, on.Timer.NextDueMS, end)
	present, _ := byVersion(s.openOf(made.Timer.ID), on.Timer.Version)
	requireGrid(t, present, 3*time.Second, on.Timer.ActiveSinceMS+1, end+1)
	require.Empty(t, s.replanning(present))
}

// lateActivationSkipsNothing edits a timer of few fires while it is paused. Its activation comes late:
// it plans as of the end of the pause, so that the misfire policy leaves out no instant that has a fire
// of the version before.
func lateActivationSkipsNothing(t *testing.T, s *setup) {
	const step = 20 * time.Millisecond
	begin := s.nowMS()
	end := begin + 1000
	made := s.gridTimer(gridDefinition(step), gridUntil(end))
	require.NotEmpty(t, made.Fires)
	s.pause(made.Timer, "", begin+200, gridUntil(end))
	d := gridDefinition(step)
	d.Misfire.Grace = timer.Duration(time.Minute)
	s.edit(made.Timer, d, gridUntil(end))
	require.Eventually(t, func() bool { return s.nowMS() > begin+600 }, time.Minute, step)
	s.expandDue(func(tm *timer.Timer, nowMS int64) store.Plan {
		if tm.ID == made.Timer.ID {
			require.LessOrEqual(t, nowMS, max(tm.NextDueMS, tm.ActiveSinceMS))
		}
		return gridUntil(end)(tm, nowMS)
	})
	tm := s.timer(made.Timer.ID)
	require.Equal(t, timer.StatusActive, tm.Status)
	present, older := byVersion(s.openOf(tm.ID), tm.Version)
	requireGrid(t, present, step, tm.ActiveSinceMS+1, end+1)
	for _, f := range older {
		require.LessOrEqual(t, f.DueMS, tm.ActiveSinceMS)
	}
	require.Empty(t, s.replanning(present))
}

// priorityIsContinued changes the priority of many fires. They are called by the new version all
// along.
func priorityIsContinued(t *testing.T, s *setup) {
	made, end := s.denseTimer()
	d := gridDefinition(time.Second)
	d.Priority = timer.PriorityHigh
	edited := s.edit(made.Timer, d, pages(end))
	require.Zero(t, s.state(made.Timer.ID).PlanVersion)
	before := s.openOf(made.Timer.ID)
	for _, f := range s.asCalled(before) {
		require.Equal(t, f.DueMS > edited.Timer.VersionMS, f.Version == 2)
	}
	require.Empty(t, s.continueReplans(pages(end)), "no fire needs another entry in the window")
	for _, f := range s.openOf(made.Timer.ID) {
		if f.DueMS > edited.Timer.VersionMS {
			require.Equal(t, timer.LevelHigh, f.PriorityLevel)
			require.EqualValues(t, 2, f.Version)
		}
	}
	tm, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.Equal(t, made.Timer.FiresCreated, tm.FiresCreated)
}

// followUpBehindSkipsNothing checks that a follow-up which is behind plans as of the instant that
// it has reached, so that the misfire policy leaves out no instant that may have a fire.
func followUpBehindSkipsNothing(t *testing.T, s *setup) {
	const step = 10 * time.Millisecond
	end := s.nowMS() + 5000
	made := s.gridTimer(gridDefinition(step), gridUntil(end))
	edited := s.edit(made.Timer, gridDefinition(2*step), gridUntil(end))
	require.Less(t, edited.Timer.NextDueMS, end)
	require.Eventually(t, func() bool { return s.nowMS() > edited.Timer.NextDueMS+100 },
		time.Minute, step)
	for range 2 { // the last page has nothing to do
		_, _, err := s.st().ContinueReplans(
			t.Context(),
			func(tm *timer.Timer, nowMS int64) store.Plan {
				require.LessOrEqual(t, nowMS, tm.NextDueMS)
				return gridUntil(end)(tm, nowMS)
			},
		)
		require.NoError(t, err)
	}
	require.Empty(t, s.replanning(made.Fires))
}

// concurrentFollowUps edits two timers while others do pages, expand and change the status.
func concurrentFollowUps(t *testing.T, s *setup) {
	const callers, rounds = 6, 3
	end := s.nowMS() + 5*timer.MinuteMS
	made := []store.CreateResult{
		s.gridTimer(gridDefinition(time.Second), gridUntil(end)),
		s.gridTimer(gridDefinition(2*time.Second), gridUntil(end)),
	}
	plan := pages(end)
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		for r := range rounds {
			var items []store.Edit
			for k := range made {
				d := gridDefinition(time.Duration(1+(i*rounds+r)%3) * time.Second)
				d.Labels = map[string]string{"n": strconv.Itoa(i*rounds + r)}
				items = append(
					items,
					store.Edit{App: "app", ID: made[(k+i)%2].Timer.ID, Definition: d},
				)
			}
			if i%3 == 0 {
				if _, err := st.Edit(ctx, items, plan); err != nil {
					return err
				}
			}
			if _, _, err := st.ContinueReplans(ctx, plan); err != nil {
				return err
			}
			if _, _, err := st.Expand(ctx, 10, plan); err != nil {
				return err
			}
		}
		return nil
	})
	s.continueReplans(plan)
	for _, m := range made {
		tm, err := s.st().Timer(t.Context(), "app", m.Timer.ID)
		require.NoError(t, err)
		present, _ := byVersion(s.asCalled(s.openOf(tm.ID)), tm.Version)
		every := time.Duration(tm.Definition.Schedule.Every)
		requireGrid(t, present, every, tm.VersionMS+1, tm.NextDueMS)
		require.Empty(t, s.replanning(s.openOf(tm.ID)))
	}
}
