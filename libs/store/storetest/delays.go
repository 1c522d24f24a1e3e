package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// planDelay plans the first fire of a fixed delay, which runs after it is due by the schedule's
// jitter. A calendar moves it to opensMS, unless it excludes nothing.
func planDelay(opensMS int64) store.Planner {
	return func(t *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		from := t.NextDueMS - 1
		switch t.NextDueMS {
		case timer.NeverMS:
			return p
		case 0:
			from = t.ActiveSinceMS
		}
		due := from + time.Duration(t.Definition.Schedule.Every).Milliseconds()
		if slices.ContainsFunc(t.Calendars, func(c timer.Calendar) bool {
			return len(c.ExcludedWeekdays) > 0
		}) {
			due = max(due, opensMS)
		}
		p.Fires = []timer.Fire{{
			FireID:  timer.FireID{Timer: t.ID, DueMS: due},
			RunAtMS: due + time.Duration(t.Definition.Schedule.Jitter).Milliseconds(),
		}}
		return p
	}
}

// delayDefinition has a fixed delay of a minute.
func delayDefinition(calendars ...string) timer.Definition {
	d := definition("http://a")
	d.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), Calendars: calendars,
	}
	return d
}

// editsBelowMaxFires edits a fixed delay so that max_fires leaves it no fire, and then without a
// limit. The fire ahead may have been skipped in between, so the delay counts from the edits.
func editsBelowMaxFires(t *testing.T, s *setup) {
	plan := planDelay(0)
	d := delayDefinition()
	made := s.gridTimer(d, plan)
	require.Len(t, made.Fires, 1)
	s.until(made.Timer.CreatedMS + 5)
	d.Schedule.MaxFires = 1
	limited := s.edit(made.Timer, d, func(t *timer.Timer, _ int64) store.Plan {
		return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: timer.NeverMS}
	})
	require.Empty(t, limited.Fires)
	require.Greater(t, limited.Timer.NextDueMS, limited.Timer.VersionMS)
	s.until(limited.Timer.VersionMS + 5)
	d.Schedule.MaxFires = 0
	free := s.edit(limited.Timer, d, plan)
	require.Len(t, free.Fires, 1)
	require.Greater(t, free.Fires[0].DueMS, made.Fires[0].DueMS)
}

// editsKeepTheDelay edits fixed delays. An edit that keeps the delay, its start and its calendars
// keeps the instant of the fire ahead.
func editsKeepTheDelay(t *testing.T, s *setup) {
	opensMS := s.nowMS() + time.Hour.Milliseconds()
	plan := planDelay(opensMS)
	_, err := s.put("work", "mon", 0)
	require.NoError(t, err)
	session := s.session()
	start := time.UnixMilli(s.nowMS()).Add(-time.Hour).UTC()
	end := time.UnixMilli(opensMS).Add(time.Hour).UTC()
	for _, state := range []string{"open", "claimed", "successor", "moved"} {
		d := delayDefinition()
		if state == "moved" {
			d = delayDefinition("work")
		}
		d.Schedule.StartAt = &start
		made := s.gridTimer(d, plan)
		require.Len(t, made.Fires, 1)
		ahead, owner := made.Fires[0], timer.ID(0)
		s.until(made.Timer.CreatedMS + 5)
		switch state {
		case "claimed":
			owner = session
			require.Len(t, s.claim(session, made.Fires), 1)
		case "successor":
			_, next := s.record(session, s.withSuccessor(s.claim(session, made.Fires)[0]))
			require.Len(t, next, 1)
			ahead = next[0]
		case "moved":
			require.Equal(t, opensMS, ahead.DueMS)
		}
		created := s.timer(made.Timer.ID).FiresCreated
		version, open := int32(1), timer.Fire{}
		for what, change := range map[string]func(){
			"jitter":    func() { d.Schedule.Jitter = timer.Duration(time.Second) },
			"grace":     func() { d.Misfire.Grace = timer.Duration(time.Minute) },
			"max_fires": func() { d.Schedule.MaxFires = 10 },
			"end_at":    func() { d.Schedule.EndAt = &end },
		} {
			change()
			edited := s.edit(made.Timer, d, plan)
			version++
			rec, err := s.st().Fire(t.Context(), "app", ahead.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open, "%s %s", state, what)
			open = *rec.Open
			require.Equal(t, version, open.Version, "%s %s", state, what)
			require.Equal(t, owner, open.Owner)
			require.Equal(t, created, edited.Timer.FiresCreated, "%s %s", state, what)
			require.Equal(t, ahead.DueMS, edited.Timer.LastDueMS)
			require.Equal(t, timer.NeverMS, edited.Timer.NextDueMS)
		}
		if owner == 0 {
			require.Equal(t, ahead.DueMS+1000, open.RunAtMS, "by the jitter of the new version")
			continue
		}
		_, next := s.record(session, s.withSuccessor(open))
		require.Len(t, next, 1, "the chain goes on")
		require.Equal(t, version, next[0].Version)
	}
}

// editsBeginADelay edits fixed delays so that they begin anew.
func editsBeginADelay(t *testing.T, s *setup) {
	for _, name := range []string{"work", "rest"} {
		_, err := s.put(name, "", 0)
		require.NoError(t, err)
	}
	plan := planDelay(0)
	start := time.UnixMilli(s.nowMS()).UTC()
	for what, change := range map[string]func(d *timer.Definition){
		"every":     func(d *timer.Definition) { d.Schedule.Every += timer.Duration(time.Second) },
		"start_at":  func(d *timer.Definition) { d.Schedule.StartAt = &start },
		"zone":      func(d *timer.Definition) { d.Schedule.Zone = "Asia/Tokyo" },
		"calendars": func(d *timer.Definition) { d.Schedule.Calendars = []string{"rest"} },
		"excluded":  func(d *timer.Definition) { d.Schedule.Excluded = timer.ExcludedNext },
	} {
		d := delayDefinition("work")
		made := s.gridTimer(d, plan)
		s.until(made.Timer.CreatedMS + 5)
		change(&d)
		edited := s.edit(made.Timer, d, plan)
		require.Len(t, edited.Fires, 1, what)
		every := time.Duration(d.Schedule.Every).Milliseconds()
		require.GreaterOrEqual(t, edited.Fires[0].DueMS, edited.Timer.VersionMS+every, what)
		require.EqualValues(t, 1, edited.Timer.FiresCreated, what)
	}

	// A plan that fails keeps nothing: the fire ahead may be skipped before the next one.
	made := s.gridTimer(delayDefinition(), plan)
	s.until(made.Timer.CreatedMS + 5)
	d := delayDefinition()
	d.Schedule.Jitter = timer.Duration(time.Second)
	failed := s.edit(made.Timer, d, func(*timer.Timer, int64) store.Plan {
		return store.Plan{Err: errors.New("no such zone")}
	})
	require.True(t, failed.Timer.Replan)
	require.Equal(t, failed.Timer.VersionMS+1, failed.Timer.NextDueMS)

	// An activation begins anew, whatever was edited meanwhile.
	made = s.gridTimer(delayDefinition(), plan)
	s.setStatus(made.Timer, timer.StatusPaused, plan)
	s.until(made.Timer.CreatedMS + 5)
	s.edit(made.Timer, d, plan)
	on := s.setStatus(made.Timer, timer.StatusActive, plan)
	require.Len(t, on.Fires, 1)
	require.GreaterOrEqual(t, on.Fires[0].DueMS, on.Timer.ActiveSinceMS+timer.MinuteMS)
}
