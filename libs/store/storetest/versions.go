package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func editMakesAVersion(t *testing.T, s *setup) {
	ctx := t.Context()
	made := s.create(s.newTimer(), noFires).Timer
	require.Equal(t, made.CreatedMS, made.VersionMS)
	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)

	b := definition("http://b")
	edited := s.edit(made, b, noFires)
	require.EqualValues(t, 2, edited.Timer.Version)
	require.Equal(t, b, edited.Timer.Definition)
	require.InDelta(t, s.nowMS(), edited.Timer.VersionMS, 10_000)
	require.Positive(t, edited.Seq)
	changes, err := s.st().Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, edited.Seq, changes[0].Seq)
	require.EqualValues(t, 2, changes[0].State.Version)
	require.Equal(t, edited.Timer.VersionMS, changes[0].State.VersionMS)
	defs, err := s.st().
		Definitions(ctx, []store.VersionKey{{Timer: made.ID, Version: 1}, {Timer: made.ID, Version: 2}})
	require.NoError(t, err)
	require.Len(t, defs, 2)
	require.Equal(
		t,
		&made.Definition,
		defs[store.VersionKey{Timer: made.ID, Version: 1}],
		"a version never changes",
	)

	same := s.edit(made, b, noFires)
	require.Zero(t, same.Seq)
	require.Equal(t, edited.Timer, same.Timer)

	out, err := s.st().Edit(ctx, []store.Edit{
		{App: "app", ID: made.ID, IfVersion: 1, Definition: definition("http://c")},
		{App: "app", ID: 12345, Definition: b},
		{App: "other", ID: made.ID, Definition: b},
		{App: "app", ID: made.ID, IfVersion: 2, Definition: definition("http://c")},
		{App: "app", ID: made.ID, IfVersion: 3, Definition: definition("http://d")},
		{App: "app", ID: made.ID, IfVersion: 1, Definition: definition("http://d")},
	}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)
	requireCode(t, timer.CodeNotFound, out[1].Err)
	requireCode(t, timer.CodeNotFound, out[2].Err)
	require.NoError(t, out[3].Err)
	require.NoError(t, out[4].Err, "items about one timer come one after the other")
	require.EqualValues(t, 4, out[4].Timer.Version)
	require.NoError(t, out[5].Err, "it was applied before, by an answer that was lost")
	require.Zero(t, out[5].Seq)

	unread := definition("http://e")
	unread.Unreadable = "damaged"
	refused, err := s.st().Edit(ctx, []store.Edit{
		{App: "app", ID: made.ID, Definition: unread},
		{App: "app", ID: made.ID, Definition: definition("http://d")},
	}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, refused[0].Err)
	require.NoError(t, refused[1].Err)

	named, err := s.st().TimerByName(ctx, "app", made.Name)
	require.NoError(t, err)
	require.Equal(t, out[4].Timer, named)
	s.setStatus(made, timer.StatusDeleted, noFires)
	_, err = s.st().TimerByName(ctx, "app", made.Name)
	requireCode(t, timer.CodeNotFound, err)
	gone, err := s.st().Edit(ctx, []store.Edit{{App: "app", ID: made.ID, Definition: b}}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeNotFound, gone[0].Err)
}

// editsAreChecked refuses an edit with the row locked. Nothing of it is written, and another item
// of the call is done.
func editsAreChecked(t *testing.T, s *setup) {
	ctx := store.WithActor(t.Context(), testActor("k"))
	plan := gridUntil(s.nowMS() + timer.MinuteMS)
	made, other := s.gridTimer(
		gridDefinition(20*time.Second),
		plan,
	), s.gridTimer(
		gridDefinition(20*time.Second),
		plan,
	)
	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	entries := len(s.trail(store.AuditQuery{}))
	open := s.openOf(made.Timer.ID)
	asked := 0
	no := timer.Conflict("", "no")
	check := func(tm *timer.Timer, nowMS int64) error {
		asked++
		if tm.Version != 1 || tm.ID != made.Timer.ID || nowMS < made.Timer.CreatedMS {
			return timer.Invalid("", "not the timer as it is")
		}
		return no
	}
	d := gridDefinition(30 * time.Second)
	out, err := s.st().Edit(ctx, []store.Edit{
		{App: "app", ID: made.Timer.ID, Definition: d, Deactivate: true, Check: check},
		{App: "app", ID: other.Timer.ID, Definition: d},
		{App: "app", ID: made.Timer.ID, Definition: made.Timer.Definition, Check: check},
	}, plan)
	require.NoError(t, err)
	require.Equal(t, no, out[0].Err)
	require.NoError(t, out[1].Err)
	require.NoError(t, out[2].Err, "it has this definition, so nothing is asked")
	require.Equal(t, 1, asked)
	require.Equal(t, made.Timer, s.timer(made.Timer.ID))
	require.Equal(t, open, s.openOf(made.Timer.ID))
	changes, err := s.st().Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, other.Timer.ID, changes[0].State.ID)
	require.Len(t, s.trail(store.AuditQuery{}), entries+1)
}

// editDeactivates checks that an edit with Deactivate plans no fire of its definition, and that it
// changes both or neither.
func editDeactivates(t *testing.T, s *setup) {
	ctx := t.Context()
	plan := gridUntil(s.nowMS() + 10*timer.MinuteMS)
	made := s.gridTimer(gridDefinition(20*time.Second), plan).Timer
	b, c := gridDefinition(30*time.Second), gridDefinition(40*time.Second)
	change := func(version int32, d timer.Definition) store.EditResult {
		t.Helper()
		out, err := s.st().Edit(ctx, []store.Edit{{
			App: "app", ID: made.ID, IfVersion: version, Definition: d, Deactivate: true,
		}}, plan)
		require.NoError(t, err)
		return out[0]
	}
	is := func(status timer.Status, version int32) timer.Timer {
		t.Helper()
		now, err := s.st().Timer(ctx, "app", made.ID)
		require.NoError(t, err)
		require.Equal(t, status, now.Status)
		require.Equal(t, version, now.Version)
		return now
	}
	requireCode(t, timer.CodeConflict, change(9, b).Err)
	is(timer.StatusActive, 1)

	before, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	edited := change(1, b)
	require.NoError(t, edited.Err)
	require.Equal(t, is(timer.StatusInactive, 2), edited.Timer)
	planned, _ := byVersion(s.openOf(made.ID), 2)
	require.Empty(t, planned)
	changes, err := s.st().Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1, "nobody sees one without the other")
	require.Zero(t, change(1, b).Seq, "a repetition changes nothing")
	again := change(2, c)
	require.NoError(t, again.Err)
	is(timer.StatusInactive, 3)

	s.setStatus(made, timer.StatusActive, plan)
	requireCode(t, timer.CodeConflict, change(2, c).Err) // somebody has activated it since
	is(timer.StatusActive, 3)
	same := change(3, c)
	require.NoError(t, same.Err)
	require.Positive(t, same.Seq)
	require.Equal(t, is(timer.StatusInactive, 3), same.Timer, "the definition is there already")

	due := s.nowMS() + 5*timer.MinuteMS
	once := s.gridTimer(oneShot(due), noFires).Timer
	out, err := s.st().Edit(ctx, []store.Edit{
		{App: "app", ID: once.ID, Definition: oneShot(due + 1000), Deactivate: true},
		{App: "app", ID: once.ID, Definition: oneShot(due + 2000), Deactivate: true},
	}, noFires)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.NoError(t, out[1].Err)
	now, err := s.st().Timer(ctx, "app", once.ID)
	require.NoError(t, err)
	require.Equal(t, timer.StatusInactive, now.Status)
	require.EqualValues(t, 3, now.Version)
	require.Zero(t, now.FiresCreated)
}

func editReplans(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	plan := gridUntil(end)
	made := s.gridTimer(gridDefinition(20*time.Second), plan)
	count := len(made.Fires)
	require.InDelta(t, 30, count, 1)

	// Every other instant stays, half as many are new, and one of them runs later.
	d := gridDefinition(30 * time.Second)
	edited := s.edit(made.Timer, d, plan)
	now := edited.Timer.VersionMS
	present, older := byVersion(s.openOf(made.Timer.ID), 2)
	requireGrid(t, present, 30*time.Second, now+1, end+1)
	for _, f := range present {
		require.EqualValues(t, 1, f.Epoch)
		require.Zero(t, f.Rev)
	}
	for _, f := range older {
		require.True(
			t,
			f.DueMS <= now || f.DueMS%30_000 != 0,
			"a due instant of both plans was moved",
		)
	}
	for _, f := range edited.Fires {
		require.NotZero(t, f.DueMS%20_000, "only new fires go to the window")
	}
	var past int64
	for _, f := range made.Fires {
		if f.DueMS <= now {
			past++
		}
	}
	require.Equal(t, past+int64(len(present)), edited.Timer.FiresCreated)

	// Unowned fires with another run_at are moved, and need a new entry in the window.
	session := s.session()
	mine := s.claim(session, present[1:2])
	require.Len(t, mine, 1)
	d.Schedule.Jitter = timer.Duration(5 * time.Second)
	again := s.edit(made.Timer, d, plan)
	require.Equal(t, edited.Timer.FiresCreated, again.Timer.FiresCreated)
	marked := map[timer.FireID]timer.Fire{}
	for _, f := range again.Fires {
		marked[f.FireID] = f
	}
	for i, f := range present {
		if f.DueMS <= again.Timer.VersionMS {
			continue // it came due between the two edits, and stays as it is
		}
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		open := rec.Open
		require.EqualValues(t, 3, open.Version)
		if i == 1 {
			require.Equal(t, f.RunAtMS, open.RunAtMS, "an owned fire keeps its run_at")
			require.Zero(t, open.Rev)
			continue
		}
		require.Equal(t, f.DueMS+5000, open.RunAtMS)
		require.EqualValues(t, 1, open.Rev)
		require.Equal(t, *open, marked[f.FireID])
	}
}

// editLeavesOpenFires edits everything except the schedule.
func editLeavesOpenFires(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 20) // one plan has fewer fires than were expanded
	made := s.gridTimer(gridDefinition(10*time.Second), plan)
	for range 2 {
		s.replan(made.Timer, plan)
	}
	tm, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	require.EqualValues(t, 60, tm.FiresCreated)
	d := gridDefinition(10 * time.Second)
	d.Target.URL = "http://b"
	rows := s.openOf(made.Timer.ID)
	for version := int32(2); version < 4; version++ {
		d.Target.Method = []string{"", "", "PUT", "GET"}[version]
		edited := s.edit(made.Timer, d, plan)
		require.Empty(t, edited.Fires)
		require.Equal(t, version, edited.Timer.Version)
		require.Equal(t, tm.FiresCreated, edited.Timer.FiresCreated)
		require.Equal(t, tm.NextDueMS, edited.Timer.NextDueMS)
		open := s.openOf(made.Timer.ID)
		require.Equal(t, rows, open, "no fire is touched")
		require.Zero(t, s.state(made.Timer.ID).PlanVersion)
		present, older := byVersion(s.asCalled(open), version)
		require.Len(t, present, 60-len(older))
		for _, f := range older {
			require.LessOrEqual(
				t,
				f.DueMS,
				edited.Timer.VersionMS,
				"what is due until then is of the version before",
			)
		}
		// The same holds while the timer is not active.
		s.setStatus(made.Timer, timer.StatusInactive, plan)
	}

	// A fire that was called by a later version than its row has keeps that version when it is
	// released. A fire that was moved on meanwhile keeps its row's version.
	session := s.session()
	won := s.claim(session, rows[len(rows)-2:])
	require.Len(t, won, 2)
	won[0].Version, won[0].Attempt = 3, 1
	released, err := s.st().Release(t.Context(), session, won[:1], nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, released[0].Version)
	won[1].Version, won[1].Attempt = 3, 1
	_, err = s.st().RecordAttempts(t.Context(), session, won[1:], nil)
	require.NoError(t, err)
	won[1].Version = 1
	_, err = s.st().Release(t.Context(), session, won[1:], nil)
	require.NoError(t, err)
	for _, f := range won {
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		require.EqualValues(t, 3, rec.Open.Version)
	}

	// The priority is in the rows of the fires, so it is written there.
	d.Priority = timer.PriorityHigh
	edited := s.edit(made.Timer, d, plan)
	for _, f := range s.openOf(made.Timer.ID) {
		if f.DueMS > edited.Timer.VersionMS {
			require.Equal(t, timer.LevelHigh, f.PriorityLevel)
			require.EqualValues(t, 4, f.Version)
		}
	}
}

// editsBetweenPlans edits the schedule between edits of other fields. Each fire is called by the
// latest version before its instant that has the plan of its row.
func editsBetweenPlans(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	plan := gridUntil(end)
	made := s.gridTimer(gridDefinition(10*time.Second), plan)
	edit := func(every time.Duration, url string) store.EditResult {
		d := gridDefinition(every)
		d.Target.URL = url
		return s.edit(made.Timer, d, plan)
	}
	edit(10*time.Second, "http://2")
	before := s.openOf(made.Timer.ID)
	planned := edit(20*time.Second, "http://2") // 3
	require.EqualValues(t, 3, s.state(made.Timer.ID).PlanVersion)
	edit(20*time.Second, "http://4")
	last := edit(20*time.Second, "http://5")
	require.EqualValues(t, 5, last.Timer.Version)
	require.EqualValues(t, 3, s.state(made.Timer.ID).PlanVersion)
	for _, f := range s.asCalled(s.openOf(made.Timer.ID)) {
		switch {
		case f.DueMS <= last.Timer.VersionMS: // between the edits, which take no time
		case f.DueMS%20_000 == 0:
			require.EqualValues(t, 5, f.Version)
		default:
			require.EqualValues(
				t,
				1,
				f.Version,
				"what the new plan does not have is no newer version's",
			)
		}
	}
	for _, f := range before {
		f.DueMS = planned.Timer.VersionMS // as if due just before the second plan
		version, err := s.st().VersionAt(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, version, int32(2))
	}
	f := before[0]
	f.Timer++
	version, err := s.st().VersionAt(t.Context(), f)
	require.NoError(t, err)
	require.Equal(t, f.Version, version, "of a timer that does not exist")
}

// state returns the state of a timer that executors read.
func (s *setup) state(id timer.ID) timer.State {
	s.t.Helper()
	states, err := s.st().States(s.t.Context(), []timer.ID{id})
	require.NoError(s.t, err)
	require.Len(s.t, states, 1)
	return states[0]
}

// replan makes a timer expand again by a change of status.
func (s *setup) replan(tm timer.Timer, plan store.Planner) {
	s.t.Helper()
	s.setStatus(tm, timer.StatusInactive, noFires)
	s.setStatus(tm, timer.StatusActive, plan)
}

func concurrentEdits(t *testing.T, s *setup) {
	const callers, rounds = 6, 4
	plan := grid(3*time.Minute, 50)
	made := []store.CreateResult{
		s.gridTimer(gridDefinition(10*time.Second), plan),
		s.gridTimer(gridDefinition(15*time.Second), plan),
	}
	var mu sync.Mutex
	versions := map[timer.ID]map[int32]int{made[0].Timer.ID: {}, made[1].Timer.ID: {}}
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		for r := range rounds {
			if i%3 == 2 {
				if _, _, err := st.Expand(ctx, 10, plan); err != nil {
					return err
				}
			}
			var items []store.Edit
			for k := range made {
				d := gridDefinition(time.Duration(10+(i*rounds+r)%3*5) * time.Second)
				d.Target.URL = fmt.Sprint("http://", i, "/", r)
				items = append(
					items,
					store.Edit{App: "app", ID: made[(k+i)%2].Timer.ID, Definition: d},
				)
			}
			out, err := st.Edit(ctx, items, plan)
			if err != nil {
				return err
			}
			for _, e := range out {
				if e.Err != nil {
					return e.Err
				}
				mu.Lock()
				versions[e.Timer.ID][e.Timer.Version]++
				mu.Unlock()
			}
		}
		return nil
	})
	for _, m := range made {
		tm, err := s.st().Timer(t.Context(), "app", m.Timer.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1+callers*rounds, tm.Version)
		for v, n := range versions[tm.ID] {
			require.Equal(t, 1, n, "version %d", v)
		}
		present, _ := byVersion(s.asCalled(s.openOf(tm.ID)), tm.Version)
		every := time.Duration(tm.Definition.Schedule.Every)
		requireGrid(t, present, every, tm.VersionMS+1, tm.NextDueMS)
	}
}
