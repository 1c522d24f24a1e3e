package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func editCountsMaxFires(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 1000)
	d := gridDefinition(10 * time.Second)
	d.Schedule.MaxFires = 12
	made := s.gridTimer(d, plan)
	require.Len(t, made.Fires, 12)
	require.Equal(t, timer.NeverMS, made.Timer.ExpandAtMS)
	d.Schedule.Phase = timer.Duration(5 * time.Second)
	edited := s.edit(made.Timer, d, plan)
	present, _ := byVersion(s.openOf(made.Timer.ID), 2)
	var past int
	for _, f := range made.Fires {
		if f.DueMS <= edited.Timer.VersionMS {
			past++
		}
	}
	require.Len(t, present, 12-past, "those that were taken back do not count")
	require.EqualValues(t, 12, edited.Timer.FiresCreated)
	d.Schedule.MaxFires = 20
	edited = s.edit(made.Timer, d, plan)
	require.EqualValues(t, 20, edited.Timer.FiresCreated)
}

// editRaisesMaxFires checks that what came due after the last fire that max_fires allowed is not
// caught up when an edit allows more.
func editRaisesMaxFires(t *testing.T, s *setup) {
	d := gridDefinition(10 * time.Second)
	d.Schedule.MaxFires = 1
	var planned []int64
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		planned = append(planned, t.NextDueMS)
		p := store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: timer.NeverMS}
		if !store.AllCreated(t) {
			due := max(t.NextDueMS, nowMS-timer.MinuteMS)
			p.Fires, p.NextDueMS = []timer.Fire{
				{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due},
			}, due+1
		}
		return p
	}
	made := s.gridTimer(d, plan)
	require.Len(t, made.Fires, 1)
	planned = nil
	d.Schedule.MaxFires = 2
	edited := s.edit(made.Timer, d, plan)
	require.Equal(t, edited.Timer.VersionMS+1, planned[len(planned)-1])
	require.Len(t, edited.Fires, 1)
	require.Greater(t, edited.Fires[0].DueMS, edited.Timer.VersionMS)
}

// editExpandsThePast edits a timer that was not expanded for a while.
func editExpandsThePast(t *testing.T, s *setup) {
	now := s.nowMS()
	made := s.gridTimer(gridDefinition(10*time.Second), func(*timer.Timer, int64) store.Plan {
		return store.Plan{NextDueMS: now - timer.MinuteMS, ExpandAtMS: timer.NeverMS}
	})
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		active := *t
		active.ActiveSinceMS = 0
		return grid(5*time.Minute, 1000)(&active, nowMS)
	}
	edited := s.edit(made.Timer, gridDefinition(15*time.Second), plan)
	at := edited.Timer.VersionMS
	var old, present []timer.Fire
	for _, f := range edited.Fires {
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
		if f.Version == 1 {
			old = append(old, f)
		} else {
			present = append(present, f)
		}
	}
	requireGrid(t, old, 10*time.Second, now-timer.MinuteMS, at+1)
	requireGrid(t, old, 10*time.Second, now-timer.MinuteMS, at+1)
	require.LessOrEqual(t, old[len(old)-1].DueMS, at)
	require.Greater(t, present[0].DueMS, at)
	requireGrid(t, present, 15*time.Second, at+1, at+5*timer.MinuteMS)
	require.EqualValues(t, len(edited.Fires), edited.Timer.FiresCreated)
}

func editWhileInactive(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	plan := gridUntil(end)
	made := s.gridTimer(gridDefinition(20*time.Second), plan)
	s.setStatus(made.Timer, timer.StatusInactive, plan)
	edited := s.edit(made.Timer, gridDefinition(30*time.Second), plan)
	require.Empty(t, edited.Fires)
	require.True(t, edited.Timer.Replan)
	require.Equal(t, timer.StatusInactive, edited.Timer.Status)
	on := s.setStatus(made.Timer, timer.StatusActive, plan)
	require.False(t, on.Timer.Replan)
	require.EqualValues(t, 2, on.Timer.Version, "the edit has created a version")
	present, _ := byVersion(s.openOf(made.Timer.ID), 2)
	since := on.Timer.ActiveSinceMS
	requireGrid(t, present, 30*time.Second, since+1, end+1)
	for _, f := range present {
		require.EqualValues(t, 2, f.Epoch)
	}
	for _, f := range on.Fires {
		require.NotZero(t, f.DueMS%20_000, "a fire moved with the same run_at is in the window")
	}
	require.Equal(t, made.Timer.AnchorMS, on.Timer.AnchorMS, "the first activation")
	require.Positive(t, on.Timer.AnchorMS)
}

// laterExpansionsMove plans fewer fires at once than the version before.
func laterExpansionsMove(t *testing.T, s *setup) {
	made := s.gridTimer(gridDefinition(10*time.Second), grid(10*time.Minute, 1000))
	n := len(made.Fires)
	few := func(t *timer.Timer, nowMS int64) store.Plan {
		p := grid(10*time.Minute, 3)(t, nowMS)
		if p.ExpandAtMS = nowMS; len(p.Fires) == 0 {
			p.ExpandAtMS = timer.NeverMS
		}
		return p
	}
	d := gridDefinition(10 * time.Second)
	d.Schedule.Jitter = timer.Duration(3 * time.Second)
	edited := s.edit(made.Timer, d, few)
	require.Len(t, edited.Fires, 3)
	// One of the remaining fires is skipped before the expansion reaches it. None is superseded
	// yet.
	session := s.session()
	_, older := byVersion(s.openOf(made.Timer.ID), 2)
	next := slices.IndexFunc(
		older,
		func(f timer.Fire) bool { return f.DueMS >= edited.Timer.NextDueMS },
	)
	gone := s.claim(session, older[next:next+1])
	require.Len(t, gone, 1)
	skip := timer.Outcome{
		Fire:       gone[0],
		Kind:       timer.Skipped,
		Reason:     timer.ReasonSuperseded,
		FinishedMS: s.nowMS(),
		UntilMS:    gone[0].DueMS,
		Count:      1,
	}
	lost, _ := s.record(session, skip)
	require.Equal(t, ids(gone), lost)
	skip.Reason = timer.ReasonMisfired
	lost, _ = s.record(session, skip)
	require.Empty(t, lost)
	marked := len(edited.Fires) + len(s.expandDue(few))
	present, older := byVersion(s.openOf(made.Timer.ID), 2)
	for _, f := range present {
		require.Equal(t, f.DueMS+3000, f.RunAtMS)
		require.Equal(t, f.DueMS <= made.Fires[n-1].DueMS, f.Rev == 1)
		require.NotEqual(t, gone[0].FireID, f.FireID, "it has its outcome")
	}
	require.GreaterOrEqual(t, len(present), n-3)
	require.LessOrEqual(t, len(older), 2, "those that came due before the edit")
	require.GreaterOrEqual(t, marked, len(present))
}
