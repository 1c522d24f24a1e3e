package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// put writes a calendar that excludes a weekday, or nothing for "".
func (s *setup) put(name, weekday string, ifVersion int64) (store.CalendarVersion, error) {
	s.t.Helper()
	c := timer.Calendar{Name: name, Zone: "Europe/Berlin", IncludedDates: []string{"2026-12-25"}}
	if weekday != "" {
		c.ExcludedWeekdays = []string{weekday}
	}
	return s.st().PutCalendar(s.t.Context(), "app", c, ifVersion)
}

func calendarsHaveVersions(t *testing.T, s *setup) {
	ctx := t.Context()
	_, err := s.st().Calendar(ctx, "app", "work")
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.put("work", "mon", 1)
	requireCode(t, timer.CodeConflict, err)
	for i, weekday := range []string{"tue", "wed", "tue"} {
		v, err := s.put("work", weekday, int64(i))
		require.NoError(t, err)
		require.EqualValues(t, i+1, v.Version)
		stored, err := s.st().Calendar(ctx, "app", "work")
		require.NoError(t, err)
		require.Equal(t, stored, v)
	}
	_, err = s.put("work", "mon", 2)
	requireCode(t, timer.CodeConflict, err)
	_, err = s.put("work", "mon", store.IfAbsent)
	requireCode(t, timer.CodeConflict, err)
	got, err := s.st().Calendar(ctx, "app", "work")
	require.NoError(t, err)
	require.Equal(t, timer.Calendar{
		Name:             "work",
		Zone:             "Europe/Berlin",
		IncludedDates:    []string{"2026-12-25"},
		ExcludedWeekdays: []string{"tue"},
	}, got.Calendar)
	require.EqualValues(t, 3, got.Version)
	require.InDelta(t, s.nowMS(), got.UpdatedMS, 10_000)
	_, err = s.st().Calendar(ctx, "other", "work")
	requireCode(t, timer.CodeNotFound, err)

	for _, name := range []string{"a", "z", "b"} {
		_, err := s.put(name, "", 0)
		require.NoError(t, err)
	}
	list := func(after string, limit int) (names []string) {
		t.Helper()
		all, err := s.st().Calendars(ctx, "app", after, limit)
		require.NoError(t, err)
		for _, c := range all {
			names = append(names, c.Name)
		}
		return names
	}
	require.Equal(t, []string{"a", "b", "work", "z"}, list("", 10))
	require.Equal(t, []string{"b", "work"}, list("a", 2))

	n := s.newTimer()
	n.Definition.Schedule.Calendars = []string{"work", "a"}
	tm := s.create(n, noFires).Timer
	err = s.st().DeleteCalendar(ctx, "app", "work")
	requireCode(t, timer.CodeConflict, err)
	require.Contains(t, err.Error(), tm.Name)
	s.edit(tm, definition("http://a"), noFires)
	require.NoError(t, s.st().DeleteCalendar(ctx, "app", "work"))
	requireCode(t, timer.CodeNotFound, s.st().DeleteCalendar(ctx, "app", "work"))
	d := definition("http://a")
	d.Schedule.Calendars = []string{"a"}
	s.edit(tm, d, noFires)
	requireCode(t, timer.CodeConflict, s.st().DeleteCalendar(ctx, "app", "a"))
	s.setStatus(tm, timer.StatusDeleted, noFires)
	require.NoError(t, s.st().DeleteCalendar(ctx, "app", "a"))
}

// calendarsStayTheSame writes the content that a calendar has already: nothing changes. Of callers
// that write the same new content at once, one makes a version.
func calendarsStayTheSame(t *testing.T, s *setup) {
	ctx := t.Context()
	first, err := s.put("work", "mon", 0)
	require.NoError(t, err)
	n := s.newTimer()
	n.Definition.Schedule.Calendars = []string{"work"}
	made := s.create(n, noFires).Timer
	by := store.WithActor(ctx, testActor("k"))
	entries := len(s.trail(store.AuditQuery{}))
	for _, ifVersion := range []int64{0, 1} {
		again, err := s.st().PutCalendar(by, "app", first.Calendar, ifVersion)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	for _, ifVersion := range []int64{store.IfAbsent, 2} {
		_, err := s.put("work", "mon", ifVersion)
		requireCode(t, timer.CodeConflict, err)
	}
	stored, err := s.st().Calendar(ctx, "app", "work")
	require.NoError(t, err)
	require.Equal(t, first, stored)
	got, err := s.st().Timer(ctx, "app", made.ID)
	require.NoError(t, err)
	require.False(t, got.Replan)
	require.Equal(t, made.Version, got.Version)
	require.Len(t, s.trail(store.AuditQuery{}), entries)

	s.together(8, func(_ context.Context, _ int, st store.Store) error {
		c := timer.Calendar{Name: "work", ExcludedWeekdays: []string{"tue"}}
		v, err := st.PutCalendar(by, "app", c, 0)
		if err == nil && v.Version != 2 {
			err = fmt.Errorf("expected version 2, found %d", v.Version)
		}
		return err
	})
	require.Len(t, s.trail(store.AuditQuery{}), entries+1)
}

// calendarsKnowTheirTimers reads the timers that name a calendar, page by page, after edits and
// deletions.
func calendarsKnowTheirTimers(t *testing.T, s *setup) {
	users := func(app, name string) (ids []timer.ID) {
		t.Helper()
		for after := timer.ID(0); ; {
			page, err := s.st().TimersOfCalendar(t.Context(), app, name, after, 2)
			require.NoError(t, err)
			if ids = append(ids, page...); len(page) < 2 {
				return ids
			}
			after = page[1]
		}
	}
	for _, name := range []string{"a", "b"} {
		_, err := s.put(name, "", 0)
		require.NoError(t, err)
	}
	require.Empty(t, users("app", "a"))
	var made []timer.Timer
	var ids []timer.ID
	for i := range 5 {
		n := s.newTimer()
		n.Definition.Schedule.Calendars = []string{"a", "b"}[:1+i%2]
		made = append(made, s.create(n, noFires).Timer)
		ids = append(ids, made[i].ID)
	}
	slices.Sort(ids)
	require.Equal(t, ids, users("app", "a"))
	require.Len(t, users("app", "b"), 2)
	require.Empty(t, users("app", "none"))
	require.Empty(t, users("other", "a"))
	s.edit(made[1], definition("http://a"), noFires)
	s.setStatus(made[3], timer.StatusDeleted, noFires)
	require.Empty(t, users("app", "b"))
	require.Len(t, users("app", "a"), 3)
}

func calendarsComeWithTimers(t *testing.T, s *setup) {
	for _, name := range []string{"a", "b"} {
		_, err := s.put(name, "tue", 0)
		require.NoError(t, err)
	}
	end := s.nowMS() + 10*timer.MinuteMS
	var seen []string
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		for _, c := range t.Calendars {
			seen = append(seen, c.Name)
		}
		return gridUntil(end)(t, nowMS)
	}
	d := gridDefinition(time.Minute)
	d.Schedule.Calendars = []string{"b", "a"}
	made := s.gridTimer(d, plan)
	require.Equal(t, []string{"b", "a"}, seen)
	got, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.Equal(t, made.Timer, got)
	require.Len(t, got.Calendars, 2)

	_, err = s.put("c", "tue", 0)
	require.NoError(t, err)
	d.Schedule.Calendars = []string{"b", "c"}
	edited := s.edit(made.Timer, d, plan)
	require.Len(t, edited.Timer.Calendars, 2)
	present, _ := byVersion(s.openOf(made.Timer.ID), 2)
	requireGrid(t, present, time.Minute, edited.Timer.VersionMS+1, end+1)
}

// missingCalendarsAreRefused creates timers that name a calendar which their app does not have, and
// edits one so. Nothing changes then, and other items of the call are done.
func missingCalendarsAreRefused(t *testing.T, s *setup) {
	ctx := t.Context()
	plan := gridUntil(s.nowMS() + timer.MinuteMS)
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	require.NoError(t, s.st().DeleteCalendar(ctx, "app", "work"))
	_, err = s.put("a", "", 0)
	require.NoError(t, err)
	refused := func(err error) {
		t.Helper()
		requireCode(t, timer.CodeInvalid, err)
		require.ErrorContains(t, err, "schedule.calendars[1]")
		require.ErrorContains(t, err, `"work"`)
	}
	plain, named := gridDefinition(time.Minute), gridDefinition(time.Minute)
	named.Schedule.Calendars = []string{"a", "work"}
	made, err := s.st().Create(ctx, []store.NewTimer{
		{App: "app", Name: "one", Definition: named, Activate: true},
		{App: "app", Name: "two", Definition: plain, Activate: true},
	}, plan)
	require.NoError(t, err)
	refused(made[0].Err)
	require.NoError(t, made[1].Err)
	_, err = s.st().TimerByName(ctx, "app", "one")
	requireCode(t, timer.CodeNotFound, err)

	first, second := gridDefinition(time.Minute), gridDefinition(time.Minute)
	first.Labels = map[string]string{"is": "first"}
	second.Schedule.Calendars = named.Schedule.Calendars
	id := made[1].Timer.ID
	edited, err := s.st().Edit(ctx, []store.Edit{
		{App: "app", ID: id, Definition: second},
		{App: "app", ID: id, Definition: first},
	}, plan)
	require.NoError(t, err)
	refused(edited[0].Err)
	require.NoError(t, edited[1].Err)
	got, err := s.st().Timer(ctx, "app", id)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Version)
	require.Equal(t, first.Labels, got.Definition.Labels)
}

// deletedCalendarsHaveNoTimers deletes a calendar while timers are created and edited that name it.
func deletedCalendarsHaveNoTimers(t *testing.T, s *setup) {
	const callers, rounds = 6, 8
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		plain, named := gridDefinition(time.Minute), gridDefinition(time.Minute)
		named.Schedule.Calendars = []string{"work"}
		for r := range rounds {
			if i%3 == 0 {
				if _, err := st.PutCalendar(
					ctx,
					"app",
					timer.Calendar{Name: "work"},
					0,
				); err != nil {
					return err
				}
				err := st.DeleteCalendar(ctx, "app", "work")
				if c := timer.CodeOf(
					err,
				); err != nil && c != timer.CodeConflict &&
					c != timer.CodeNotFound {
					return err
				}
				continue
			}
			n := store.NewTimer{App: "app", Name: fmt.Sprint(i, "-", r), Definition: named}
			if i%3 == 1 {
				n.Definition = plain
			}
			made, err := st.Create(ctx, []store.NewTimer{n}, noFires)
			if err != nil {
				return err
			}
			tm := made[0].Timer
			if i%3 == 1 {
				if _, err := st.Edit(
					ctx,
					[]store.Edit{{App: "app", ID: tm.ID, Definition: named}},
					noFires,
				); err != nil {
					return err
				}
			}
			if made[0].Err == nil && r%2 == 0 {
				_, err := st.SetStatus(ctx, []store.StatusChange{
					{App: "app", ID: tm.ID, Status: timer.StatusDeleted},
				}, noFires)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	_, err := s.st().Calendar(t.Context(), "app", "work")
	gone := timer.CodeOf(err) == timer.CodeNotFound
	for i := range callers {
		for r := range rounds {
			tm, err := s.st().TimerByName(t.Context(), "app", fmt.Sprint(i, "-", r))
			if timer.CodeOf(err) == timer.CodeNotFound {
				continue
			}
			require.NoError(t, err)
			require.False(t, gone && len(tm.Definition.Schedule.Calendars) > 0,
				"the timer %s names a calendar that was deleted", tm.Name)
		}
	}
}

func calendarsReplan(t *testing.T, s *setup) {
	ctx := t.Context()
	plan := gridUntil(s.nowMS() + 10*timer.MinuteMS)
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	d := gridDefinition(30 * time.Second)
	d.Schedule.Calendars = []string{"work"}
	active, idle := s.gridTimer(d, plan), s.gridTimer(d, plan)
	plain := s.gridTimer(gridDefinition(30*time.Second), plan)
	s.setStatus(idle.Timer, timer.StatusInactive, plan)
	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	_, err = s.put("work", "mon", 0)
	require.NoError(t, err)
	got, err := s.st().Timer(ctx, "app", active.Timer.ID)
	require.NoError(t, err)
	require.True(t, got.Replan)
	require.Empty(t, s.expandDue(plan), "nothing new")

	got, err = s.st().Timer(ctx, "app", active.Timer.ID)
	require.NoError(t, err)
	require.False(t, got.Replan)
	require.EqualValues(t, 2, got.Version, "so that executors can tell what is excluded now")
	changes, err := s.st().Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.EqualValues(t, 2, changes[0].State.Version)
	require.Equal(t, got.VersionMS, changes[0].State.VersionMS)
	defs, err := s.st().Definitions(ctx, []store.VersionKey{{Timer: got.ID, Version: 2}})
	require.NoError(t, err)
	require.Equal(t, &active.Timer.Definition, defs[store.VersionKey{Timer: got.ID, Version: 2}])
	requireAllowed := func(tm timer.Timer) {
		t.Helper()
		present, older := byVersion(s.openOf(tm.ID), tm.Version)
		require.NotEmpty(t, present)
		for _, f := range present {
			require.Zero(t, f.DueMS/timer.MinuteMS%2)
		}
		for _, f := range older {
			require.True(t, f.DueMS <= tm.VersionMS || f.DueMS/timer.MinuteMS%2 == 1)
		}
	}
	requireAllowed(got)

	on := s.setStatus(idle.Timer, timer.StatusActive, plan)
	require.EqualValues(t, 2, on.Timer.Version)
	requireAllowed(on.Timer)
	got, err = s.st().Timer(ctx, "app", plain.Timer.ID)
	require.NoError(t, err)
	require.False(t, got.Replan)

	// The day is allowed again. Fires that were taken back and have no outcome are moved back.
	_, err = s.put("work", "", 0)
	require.NoError(t, err)
	require.Empty(t, s.expandDue(plan))
	got, err = s.st().Timer(ctx, "app", active.Timer.ID)
	require.NoError(t, err)
	present, _ := byVersion(s.openOf(got.ID), 3)
	requireGrid(t, present, 30*time.Second, got.VersionMS+1, got.VersionMS+9*timer.MinuteMS)
}

// concurrentCalendars changes a calendar while timers that name it are created and expanded. In the
// end all of them follow the last content.
func concurrentCalendars(t *testing.T, s *setup) {
	const callers, rounds = 8, 6
	plan := grid(5*time.Minute, 1000)
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	d := gridDefinition(30 * time.Second)
	d.Schedule.Calendars = []string{"work"}
	made := make([][]timer.ID, callers)
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		for r := range rounds {
			switch i % 4 {
			case 0:
				// No two calls have the same content, so each makes a version.
				day := fmt.Sprintf("2001-01-%02d", 1+i*rounds+r)
				c := timer.Calendar{Name: "work", ExcludedDates: []string{day}}
				if r%2 == 0 {
					c.ExcludedWeekdays = []string{"mon"}
				}
				if _, err := st.PutCalendar(ctx, "app", c, 0); err != nil {
					return err
				}
			case 1:
				if _, _, err := st.Expand(ctx, 5, plan); err != nil {
					return err
				}
			default:
				out, err := st.Create(ctx, []store.NewTimer{
					{App: "app", Name: fmt.Sprint(i, "-", r, "a"), Definition: d, Activate: true},
					{App: "app", Name: fmt.Sprint(i, "-", r, "b"), Definition: d, Activate: true},
				}, plan)
				if err != nil {
					return err
				}
				made[i] = append(made[i], out[0].Timer.ID, out[1].Timer.ID)
			}
		}
		return nil
	})
	_, err = s.put("other", "", 0)
	require.NoError(t, err)
	s.expandDue(plan)
	work, err := s.st().Calendar(t.Context(), "app", "work")
	require.NoError(t, err)
	require.EqualValues(t, 1+2*rounds, work.Version)
	strict := len(work.ExcludedWeekdays) > 0
	for _, ids := range made {
		for _, id := range ids {
			tm, err := s.st().Timer(t.Context(), "app", id)
			require.NoError(t, err)
			require.False(t, tm.Replan)
			present, _ := byVersion(s.openOf(id), tm.Version)
			odd := 0
			for _, f := range present {
				odd += int(f.DueMS / timer.MinuteMS % 2)
			}
			require.Equal(t, strict, odd == 0)
		}
	}
}

// pastOneShotsStayPast replans one-shots. One that was due is not due again, one in the future is.
func pastOneShotsStayPast(t *testing.T, s *setup) {
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	plan := func(t *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		if t.NextDueMS != timer.NeverMS {
			due := max(t.Definition.Schedule.At.UnixMilli(), t.NextDueMS, t.ActiveSinceMS)
			p.Fires = []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}}
		}
		return p
	}
	once := func(after time.Duration) store.CreateResult {
		at := time.UnixMilli(s.nowMS()).Add(after)
		d := definition("http://a")
		d.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at, Calendars: []string{"work"}}
		return s.gridTimer(d, plan)
	}
	past, coming := once(0), once(5*time.Minute)
	session := s.session()
	called := s.claim(session, past.Fires)
	require.Len(t, called, 1)
	_, _, err = s.st().
		Record(t.Context(), session, []timer.Outcome{delivered(called[0], s.nowMS())}, nil)
	require.NoError(t, err)
	for _, weekday := range []string{"mon", ""} {
		_, err = s.put("work", weekday, 0)
		require.NoError(t, err)
		s.expandDue(plan)
		got, err := s.st().Timer(t.Context(), "app", past.Timer.ID)
		require.NoError(t, err)
		require.False(t, got.Replan)
		require.Equal(t, timer.NeverMS, got.NextDueMS)
		require.EqualValues(t, 1, got.FiresCreated)
		require.Empty(t, s.openOf(past.Timer.ID))
		open := s.openOf(coming.Timer.ID)
		require.Len(t, open, 1)
		require.Equal(t, coming.Fires[0].FireID, open[0].FireID)
	}
}

// onceAllowed plans one-shots, which are due at their instants unless a calendar excludes a
// weekday.
func onceAllowed(dueOf func(timer.ID) int64) store.Planner {
	return func(t *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		closed := slices.ContainsFunc(t.Calendars, func(c timer.Calendar) bool {
			return len(c.ExcludedWeekdays) > 0
		})
		if t.NextDueMS != timer.NeverMS && !closed {
			due := max(dueOf(t.ID), t.NextDueMS, t.ActiveSinceMS)
			p.Fires = []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}}
		}
		return p
	}
}

// oneShotsOfChangedPauses allows instants of one-shots that a calendar excluded, after their pauses
// were changed. One that came in an earlier part of the pause is due at the activation. One that
// came before the pause stays excluded, also if it came in an earlier pause.
func oneShotsOfChangedPauses(t *testing.T, s *setup) {
	dues := map[timer.ID]int64{}
	begun := s.nowMS()
	plan := onceAllowed(func(id timer.ID) int64 { return dues[id] })
	_, err := s.put("work", "mon", 0)
	require.NoError(t, err)
	d := oneShot(begun)
	d.Schedule.Calendars = []string{"work"}
	during, before := s.gridTimer(d, plan).Timer, s.gridTimer(d, plan).Timer
	earlier := s.gridTimer(d, plan).Timer

	paused := s.setStatus(earlier, timer.StatusPaused, plan).Timer
	s.until(paused.InactiveSinceMS + 1)
	dues[earlier.ID] = paused.InactiveSinceMS
	on := s.setStatus(earlier, timer.StatusActive, plan)
	require.Empty(t, on.Fires)
	s.until(on.Timer.ActiveSinceMS + 1)
	for _, tm := range []timer.Timer{during, before, earlier} {
		paused := s.setStatus(tm, timer.StatusPaused, plan).Timer
		switch tm.ID {
		case during.ID:
			dues[tm.ID] = paused.InactiveSinceMS
		case before.ID:
			dues[tm.ID] = paused.InactiveSinceMS - 1
		}
		s.until(paused.InactiveSinceMS + 1)
		paused = s.pause(tm, "longer", 0, plan).Timer
		s.until(paused.InactiveSinceMS + 1)
		s.setStatus(tm, timer.StatusInactive, plan)
	}
	_, err = s.put("work", "", 0)
	require.NoError(t, err)
	on = s.setStatus(during, timer.StatusActive, plan)
	require.Len(t, on.Fires, 1)
	require.GreaterOrEqual(t, on.Fires[0].DueMS, on.Timer.ActiveSinceMS)
	for _, tm := range []timer.Timer{before, earlier} {
		require.Empty(t, s.setStatus(tm, timer.StatusActive, plan).Fires)
		require.EqualValues(t, 1, s.timer(tm.ID).Version)
	}
}

// excludedOneShotsBecomeDue allows the instants of one-shots that a calendar excluded. One that is
// to come is due then, and so is one that came while its timer was paused. One that passed stays
// excluded.
func excludedOneShotsBecomeDue(t *testing.T, s *setup) {
	dues := map[timer.ID]int64{} // 0: to come
	begun := s.nowMS()
	toCome := begun + 20*timer.MinuteMS
	plan := onceAllowed(func(id timer.ID) int64 { return cmp.Or(dues[id], toCome) })
	_, err := s.put("work", "mon", 0)
	require.NoError(t, err)
	d := oneShot(begun)
	d.Schedule.Calendars = []string{"work"}
	coming, past := s.gridTimer(d, plan), s.gridTimer(d, plan)
	during, before := s.gridTimer(d, plan), s.gridTimer(d, plan)
	for _, made := range []store.CreateResult{coming, past, during, before} {
		require.Empty(t, made.Fires)
		require.Equal(t, timer.NeverMS, made.Timer.NextDueMS)
	}
	dues[past.Timer.ID] = begun
	for _, made := range []store.CreateResult{during, before} {
		paused := s.setStatus(made.Timer, timer.StatusPaused, plan)
		dues[made.Timer.ID] = paused.Timer.InactiveSinceMS
	}
	dues[before.Timer.ID]--

	_, err = s.put("work", "", 0)
	require.NoError(t, err)
	fires := s.expandDue(plan)
	require.Len(t, fires, 1)
	require.Equal(t, coming.Timer.ID, fires[0].Timer)
	require.Equal(t, toCome, fires[0].DueMS)
	got, err := s.st().Timer(t.Context(), "app", coming.Timer.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Version)
	require.EqualValues(t, 1, got.FiresCreated)

	on := s.setStatus(during.Timer, timer.StatusActive, plan)
	require.Len(t, on.Fires, 1)
	require.GreaterOrEqual(t, on.Fires[0].DueMS, on.Timer.ActiveSinceMS)
	require.Empty(t, s.setStatus(before.Timer, timer.StatusActive, plan).Fires)
	for _, made := range []store.CreateResult{past, before} {
		got, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
		require.NoError(t, err)
		require.False(t, got.Replan)
		require.Equal(t, timer.NeverMS, got.NextDueMS)
		require.EqualValues(t, 1, got.Version)
		require.Empty(t, s.openOf(made.Timer.ID))
	}

	// What was due once is not due again.
	for _, weekday := range []string{"mon", ""} {
		_, err = s.put("work", weekday, 0)
		require.NoError(t, err)
		s.expandDue(plan)
	}
	require.Len(t, s.openOf(during.Timer.ID), 1)
	require.Len(t, s.openOf(coming.Timer.ID), 1)
}

// calendarsCountMaxFires checks that fires which a calendar takes out of a plan do not count
// towards max_fires.
func calendarsCountMaxFires(t *testing.T, s *setup) {
	plan := gridUntil(s.nowMS() + 20*timer.MinuteMS)
	_, err := s.put("work", "", 0)
	require.NoError(t, err)
	d := gridDefinition(30 * time.Second)
	d.Schedule.Calendars, d.Schedule.MaxFires = []string{"work"}, 6
	made := s.gridTimer(d, plan)
	require.Len(t, made.Fires, 6)
	_, err = s.put("work", "mon", 0)
	require.NoError(t, err)
	s.expandDue(plan)
	got, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.EqualValues(t, 6, got.FiresCreated)
	past := 0
	for _, f := range made.Fires {
		if f.DueMS <= got.VersionMS {
			past++
		}
	}
	present, _ := byVersion(s.openOf(got.ID), 2)
	require.Len(t, present, 6-past)
}
