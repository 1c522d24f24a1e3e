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

// gridDefinition is due at every multiple of a duration, plus the schedule's phase.
func gridDefinition(every time.Duration) timer.Definition {
	d := definition("http://a")
	d.Schedule = timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(every)}
	return d
}

// grid plans what gridDefinition says, in bucket 0, for the given time ahead and up to a number of
// fires. A fire runs after its due instant by the schedule's jitter. If the timer has a calendar
// that excludes Mondays, odd minutes are excluded, whatever day it is.
func grid(ahead time.Duration, most int) store.Planner {
	return func(t *timer.Timer, nowMS int64) store.Plan {
		return planGrid(t, nowMS, nowMS+ahead.Milliseconds(), most)
	}
}

// gridUntil is grid up to one instant, whenever it is called: a second call finds nothing new.
func gridUntil(endMS int64) store.Planner {
	const most = 1000 // fires
	return func(t *timer.Timer, nowMS int64) store.Plan { return planGrid(t, nowMS, endMS, most) }
}

func planGrid(t *timer.Timer, nowMS, endMS int64, most int) store.Plan {
	s := &t.Definition.Schedule
	if len(t.Calendars) < len(s.Calendars) {
		return store.Plan{Err: errors.New("a calendar is missing")}
	}
	every, phase := time.Duration(s.Every).Milliseconds(), time.Duration(s.Phase).Milliseconds()
	due := max(t.NextDueMS, t.ActiveSinceMS)
	due += (every - (due-phase)%every) % every
	p := store.Plan{ExpandAtMS: nowMS + time.Hour.Milliseconds()}
	for ; due <= endMS && len(p.Fires) < most; due += every {
		if s.MaxFires > 0 && t.FiresCreated+int64(len(p.Fires)) >= s.MaxFires {
			p.NextDueMS, p.ExpandAtMS = due, timer.NeverMS
			return p
		}
		if !excluded(t, due) {
			p.Fires = append(p.Fires, timer.Fire{
				FireID: timer.FireID{
					Timer: t.ID,
					DueMS: due,
				},
				RunAtMS:       due + time.Duration(s.Jitter).Milliseconds(),
				PriorityLevel: t.Definition.Priority.PriorityLevel(),
			})
		}
	}
	p.NextDueMS = due
	return p
}

func excluded(t *timer.Timer, due int64) bool {
	return due/timer.MinuteMS%2 == 1 &&
		slices.ContainsFunc(
			t.Calendars,
			func(c timer.Calendar) bool { return slices.Contains(c.ExcludedWeekdays, "mon") },
		)
}

// gridTimer creates an active timer.
func (s *setup) gridTimer(d timer.Definition, plan store.Planner) store.CreateResult {
	s.t.Helper()
	n := s.newTimer()
	n.Definition, n.Activate = d, true
	return s.create(n, plan)
}

// edit edits a timer, which must succeed.
func (s *setup) edit(tm timer.Timer, d timer.Definition, plan store.Planner) store.EditResult {
	s.t.Helper()
	out, err := s.st().
		Edit(s.t.Context(), []store.Edit{{App: tm.App, ID: tm.ID, Definition: d}}, plan)
	require.NoError(s.t, err)
	require.Len(s.t, out, 1)
	require.NoError(s.t, out[0].Err)
	got, err := s.st().Timer(s.t.Context(), tm.App, tm.ID)
	require.NoError(s.t, err)
	require.Equal(s.t, got, out[0].Timer)
	return out[0]
}

// openOf returns the timer's fires that are open and unowned and run in the next half hour or the
// last minute, in order of due.
func (s *setup) openOf(id timer.ID) (fires []timer.Fire) {
	s.t.Helper()
	now := timer.MinuteOf(s.nowMS())
	for minute := now - 1; minute < now+30; minute++ {
		for _, f := range s.slice(minute * timer.MinuteMS) {
			if f.Timer == id {
				fires = append(fires, f)
			}
		}
	}
	slices.SortFunc(fires, timer.CompareFires)
	return fires
}

// byVersion separates the fires of a version from those of earlier versions.
func byVersion(fires []timer.Fire, version int32) (present, older []timer.Fire) {
	for _, f := range fires {
		if f.Version == version {
			present = append(present, f)
		} else {
			older = append(older, f)
		}
	}
	return present, older
}

// asCalled gives fires of schedules the versions by which they are called.
func (s *setup) asCalled(fires []timer.Fire) []timer.Fire {
	s.t.Helper()
	out := slices.Clone(fires)
	for i := range out {
		var err error
		out[i].Version, err = s.st().VersionAt(s.t.Context(), out[i])
		require.NoError(s.t, err)
	}
	return out
}

// expandDue expands until nothing is due for expansion.
func (s *setup) expandDue(plan store.Planner) (fires []timer.Fire) {
	s.t.Helper()
	for {
		more, n, err := s.st().Expand(s.t.Context(), 10, plan)
		require.NoError(s.t, err)
		fires = append(fires, more...)
		if n == 0 {
			return fires
		}
	}
}

// requireGrid checks that one fire is due at each instant of a grid in a range.
func requireGrid(t *testing.T, fires []timer.Fire, every time.Duration, fromMS, toMS int64) {
	t.Helper()
	var want, have []int64
	e := every.Milliseconds()
	for due := fromMS + (e-fromMS%e)%e; due < toMS; due += e {
		want = append(want, due)
	}
	for _, f := range fires {
		if f.DueMS >= fromMS && f.DueMS < toMS {
			have = append(have, f.DueMS)
		}
	}
	require.Equal(t, want, have)
}
