package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Three versions of the time zones. They differ in Berlin, which is 5 s later in v2.
var (
	zonesV1 = map[string]string{"UTC": "0", "Europe/Berlin": "1", "Asia/Tokyo": "1"}
	zonesV2 = map[string]string{"UTC": "0", "Europe/Berlin": "2", "Asia/Tokyo": "1"}
	zonesV3 = map[string]string{
		"UTC":               "0",
		"Europe/Berlin":     "3",
		"Asia/Tokyo":        "1",
		"America/Coyhaique": "1",
	}
)

const berlinMoves = 5 * time.Second

// zoned is gridUntil, but instants that depend on Berlin are later by the given time.
func zoned(berlin time.Duration, endMS int64) store.Planner {
	plan := gridUntil(endMS)
	return func(t *timer.Timer, nowMS int64) store.Plan {
		moved := *t
		if slices.Contains(t.Zones(), "Europe/Berlin") {
			moved.Definition.Schedule.Phase += timer.Duration(berlin)
		}
		return plan(&moved, nowMS)
	}
}

func zonedDefinition(zone string, calendars ...string) timer.Definition {
	d := gridDefinition(30 * time.Second)
	d.Schedule.Kind, d.Schedule.Zone, d.Schedule.Calendars = timer.KindCron, zone, calendars
	return d
}

// process registers a process that plans by time zones.
func (s *setup) process(version string, rules map[string]string) timer.ID {
	s.t.Helper()
	return s.register(store.Process{Version: version, Expands: true}, rules)
}

func (s *setup) register(h store.Process, rules map[string]string) timer.ID {
	s.t.Helper()
	id := s.ids.Next()
	h.ID, h.Name = id, "p"+h.Version
	for range 2 { // the answer may have been lost
		require.NoError(s.t, s.st().RegisterProcess(s.t.Context(), h, rules))
	}
	return id
}

// replanZones does all steps of a replan and returns how many timers were marked.
func (s *setup) replanZones(id timer.ID, limit int) (marked int) {
	s.t.Helper()
	for {
		step, err := s.st().ReplanZones(s.t.Context(), id, limit)
		require.NoError(s.t, err)
		if marked += step.Marked; !step.More {
			return marked
		}
	}
}

// zoneRules returns how many rules timers may have been planned by.
func (s *setup) zoneRules(id timer.ID) int {
	s.t.Helper()
	in, err := s.st().RenewProcess(s.t.Context(), id)
	require.NoError(s.t, err)
	return in.Rules
}

func (s *setup) dropZones(id timer.ID) {
	s.t.Helper()
	for range 2 {
		require.NoError(s.t, s.st().DropProcess(s.t.Context(), id))
	}
}

// requireBerlinShift checks that all fires of a timer's present version are later than the grid by
// the given time, and that each future instant has its fire.
func (s *setup) requireBerlinShift(id timer.ID, later time.Duration, endMS int64) {
	s.t.Helper()
	tm, err := s.st().Timer(s.t.Context(), "app", id)
	require.NoError(s.t, err)
	require.False(s.t, tm.Replan)
	present, older := byVersion(s.asCalled(s.openOf(id)), tm.Version)
	moved := make([]timer.Fire, 0, len(present))
	for _, f := range present {
		f.DueMS -= later.Milliseconds()
		moved = append(moved, f)
	}
	by := later.Milliseconds()
	requireGrid(s.t, moved, 30*time.Second, max(tm.VersionMS, tm.ActiveSinceMS)+1-by, endMS-by)
	// Executors skip them as superseded, except those due before the version.
	for _, f := range older {
		require.True(
			s.t,
			f.DueMS <= tm.VersionMS || (f.DueMS-by)%(30*time.Second).Milliseconds() != 0,
		)
	}
}

// changedZonesAreReplanned replaces the only process by another.
func changedZonesAreReplanned(t *testing.T, s *setup) {
	ctx := t.Context()
	end := s.nowMS() + 10*timer.MinuteMS
	was, is := zoned(0, end), zoned(berlinMoves, end)
	first := s.process("2030a", zonesV1)
	require.Zero(t, s.replanZones(first, 10), "there is nothing to compare with")
	for name, zone := range map[string]string{"berlin": "Europe/Berlin", "tokyo": "Asia/Tokyo"} {
		_, err := s.st().PutCalendar(ctx, "app", timer.Calendar{Name: name, Zone: zone}, 0)
		require.NoError(t, err)
	}
	every := gridDefinition(30 * time.Second)
	every.Schedule.Zone = "Europe/Berlin"
	changed := []timer.ID{
		s.gridTimer(zonedDefinition("Europe/Berlin"), was).Timer.ID,
		s.gridTimer(zonedDefinition("Asia/Tokyo", "tokyo", "berlin"), was).Timer.ID,
	}
	idle := s.gridTimer(zonedDefinition("Europe/Berlin"), was).Timer
	s.setStatus(idle, timer.StatusInactive, was)
	gone := s.gridTimer(zonedDefinition("Europe/Berlin"), was).Timer
	s.setStatus(gone, timer.StatusDeleted, was)
	same := []timer.ID{
		s.gridTimer(zonedDefinition(""), was).Timer.ID,
		s.gridTimer(zonedDefinition("Asia/Tokyo", "tokyo"), was).Timer.ID,
		s.gridTimer(every, was).Timer.ID,
	}
	s.expandDue(was)
	s.dropZones(first)

	second := s.process("2030b", zonesV2)
	require.Equal(t, 2, s.zoneRules(second))
	require.Equal(t, 3, s.replanZones(second, 2), "two active ones and an idle one")
	require.Equal(t, 1, s.zoneRules(second), "nothing is planned by other rules any more")
	require.Zero(t, s.replanZones(second, 2))
	for _, id := range same {
		got, err := s.st().Timer(ctx, "app", id)
		require.NoError(t, err)
		require.False(t, got.Replan)
		require.EqualValues(t, 1, got.Version)
	}
	s.expandDue(is)
	for _, id := range changed {
		s.requireBerlinShift(id, berlinMoves, end)
	}
	s.setStatus(idle, timer.StatusActive, is)
	s.requireBerlinShift(idle.ID, berlinMoves, end)
}

// zonesRollOver has processes of two versions at once. What the older ones expand meanwhile is
// replanned when they are gone.
func zonesRollOver(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	was, is := zoned(0, end), zoned(berlinMoves, end)
	older := s.process("2030a", zonesV1)
	settings := map[string]string{"zone": "Asia/Tokyo", "trace-keep": ""}
	api := s.register(store.Process{Version: "2030a", Settings: settings}, zonesV1)
	id := s.gridTimer(zonedDefinition("Europe/Berlin"), was).Timer.ID
	newer := s.process("2030b", zonesV2)
	require.Zero(t, s.replanZones(older, 10), "the latest rules win")
	require.Equal(t, 1, s.replanZones(newer, 10))
	s.expandDue(is)
	s.requireBerlinShift(id, berlinMoves, end)
	require.Zero(t, s.replanZones(newer, 10), "one walk while a migrator has other rules")
	require.Zero(t, s.replanZones(older, 10), "the position does not move back")
	require.Equal(t, 2, s.zoneRules(newer))
	in, err := s.st().RenewProcess(t.Context(), older)
	require.NoError(t, err)
	require.Len(t, in.Processes, 3)
	require.Equal(
		t,
		[]string{"2030a", "2030a", "2030b"},
		[]string{in.Processes[0].Version, in.Processes[1].Version, in.Processes[2].Version},
	)
	require.Equal(t, in.Processes[0].Hash, in.Processes[1].Hash)
	require.NotEqual(t, in.Processes[0].Hash, in.Processes[2].Hash)
	require.Equal(t, []bool{true, false}, []bool{in.Processes[0].Expands, in.Processes[1].Expands})
	again, err := s.st().RenewProcess(t.Context(), newer)
	require.NoError(t, err)
	require.NotEmpty(t, in.Database)
	require.Equal(t, in, again, "all see the same")
	require.Equal(t, settings, in.Processes[1].Settings)

	// The older migrator may have planned what was marked.
	s.dropZones(older)
	require.Equal(t, 1, s.replanZones(newer, 10))
	s.expandDue(is)
	s.requireBerlinShift(id, berlinMoves, end)
	require.Zero(t, s.replanZones(newer, 10), "one walk while other rules are left")

	// It is created by an API that was not replaced yet.
	late := s.gridTimer(zonedDefinition("Europe/Berlin"), was).Timer.ID
	s.dropZones(api)
	require.Equal(t, 2, s.replanZones(newer, 10))
	require.Equal(t, 1, s.zoneRules(newer))
	s.expandDue(is)
	s.requireBerlinShift(id, berlinMoves, end)
	s.requireBerlinShift(late, berlinMoves, end)

	// Going back works in the same way, once nobody has the later rules.
	back := s.process("2030a", zonesV1)
	require.Zero(t, s.replanZones(back, 10))
	s.dropZones(newer)
	require.Equal(t, 2, s.replanZones(back, 10))
	s.expandDue(was)
	s.requireBerlinShift(id, 0, end)
	s.requireBerlinShift(late, 0, end)
	require.Equal(t, 1, s.zoneRules(back))
}

// walksAreRepeated starts and stops a process of other rules during a walk.
func walksAreRepeated(t *testing.T, s *setup) {
	ctx := t.Context()
	older := s.process("2030a", zonesV1)
	for range 3 {
		n := s.newTimer()
		n.Definition.Schedule.Zone = "Europe/Berlin"
		s.create(n, noFires)
	}
	s.dropZones(older)
	newer := s.process("2030b", zonesV2)
	step, err := s.st().ReplanZones(ctx, newer, 1)
	require.NoError(t, err)
	require.Equal(t, store.ZoneReplan{Marked: 1, More: true}, step)
	s.dropZones(s.process("2030a", zonesV1))
	require.Equal(t, 2, s.replanZones(newer, 1), "the rest")
	require.Equal(t, 2, s.zoneRules(newer), "it may have planned behind the walk")
	require.Equal(t, 3, s.replanZones(newer, 1))
	require.Equal(t, 1, s.zoneRules(newer))

	// A process with the same rules changes nothing, whatever its version.
	same := s.process("2030c", zonesV2)
	require.Equal(t, 1, s.zoneRules(same))
	require.Zero(t, s.replanZones(same, 1))

	// Each version takes over a walk from earlier ones.
	third := s.process("2030d", zonesV3)
	step, err = s.st().ReplanZones(ctx, third, 1)
	require.NoError(t, err)
	require.Equal(t, store.ZoneReplan{Marked: 1, More: true}, step)
	require.Zero(t, s.replanZones(newer, 1))
	s.dropZones(newer)
	s.dropZones(same)
	require.Equal(t, 2+3, s.replanZones(third, 1)+s.replanZones(third, 1))
	require.Equal(t, 1, s.zoneRules(third))
	_, err = s.st().RenewProcess(ctx, newer)
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().ReplanZones(ctx, newer, 1)
	requireCode(t, timer.CodeNotFound, err)
}

// concurrentZones replans while timers are created and expanded by both rules. In the end all are
// planned by the remaining rules.
func concurrentZones(t *testing.T, s *setup) {
	const callers, rounds = 9, 6
	end := s.nowMS() + 10*timer.MinuteMS
	was, is := zoned(0, end), zoned(berlinMoves, end)
	older, newer := s.process("2030a", zonesV1), s.process("2030b", zonesV2)
	made := make([][]timer.ID, callers)
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		plan, id := was, older
		if i%2 == 0 {
			plan, id = is, newer
		}
		for r := range rounds {
			switch i % 3 {
			case 0:
				if _, err := st.ReplanZones(ctx, id, 2); err != nil {
					return err
				}
			case 1:
				if _, _, err := st.Expand(ctx, 5, plan); err != nil {
					return err
				}
			default:
				out, err := st.Create(ctx, []store.NewTimer{
					{
						App:        "app",
						Name:       fmt.Sprint(i, "-", r),
						Definition: zonedDefinition("Europe/Berlin"),
						Activate:   true,
					},
				}, plan)
				if err != nil {
					return err
				}
				made[i] = append(made[i], out[0].Timer.ID)
			}
		}
		return nil
	})
	s.dropZones(older)
	s.together(callers, func(ctx context.Context, _ int, st store.Store) error {
		for {
			step, err := st.ReplanZones(ctx, newer, 2)
			if err != nil || !step.More {
				return err
			}
		}
	})
	// A walk that was under way before the others stopped is followed by a last one.
	s.replanZones(newer, 2)
	require.Equal(t, 1, s.zoneRules(newer))
	s.expandDue(is)
	for _, ids := range made {
		for _, id := range ids {
			s.requireBerlinShift(id, berlinMoves, end)
		}
	}
}

// replansCountMaxFires checks that fires which the old plan had beyond now do not count towards
// max_fires, although the new plan has other instants.
func replansCountMaxFires(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	older := s.process("2030a", zonesV1)
	d := zonedDefinition("Europe/Berlin")
	d.Schedule.MaxFires = 3
	made := s.gridTimer(d, zoned(0, end))
	require.Len(t, made.Fires, 3)
	require.Equal(t, timer.NeverMS, made.Timer.ExpandAtMS)
	s.dropZones(older)
	newer := s.process("2030b", zonesV2)
	require.Equal(t, 1, s.replanZones(newer, 10))
	s.expandDue(zoned(berlinMoves, end))
	got, err := s.st().Timer(t.Context(), "app", made.Timer.ID)
	require.NoError(t, err)
	past := 0
	for _, f := range made.Fires {
		if f.DueMS <= got.VersionMS {
			past++
		}
	}
	present, _ := byVersion(s.openOf(got.ID), 2)
	require.Len(t, present, 3-past)
	require.EqualValues(t, 3, got.FiresCreated)
}

// editsMeanwhile edits timers while there are two rules and before any replan. Each side finds the
// fires that the other has planned.
func editsMeanwhile(t *testing.T, s *setup) {
	end := s.nowMS() + 10*timer.MinuteMS
	was, is := zoned(0, end), zoned(berlinMoves, end)
	s.process("2030a", zonesV1)
	d := zonedDefinition("Europe/Berlin")
	made := s.gridTimer(d, was)
	newer := s.process("2030b", zonesV2)
	d.Labels = map[string]string{"a": "b"}
	edited := s.edit(made.Timer, d, is)
	require.EqualValues(t, 2, edited.Timer.Version)
	present, _ := byVersion(s.asCalled(s.openOf(made.Timer.ID)), 2)
	requireGrid(t, present, 30*time.Second, edited.Timer.VersionMS+1, end)
	require.Equal(t, 1, s.replanZones(newer, 10))
	s.expandDue(is)
	s.requireBerlinShift(made.Timer.ID, berlinMoves, end)

	d.Labels = nil
	edited = s.edit(edited.Timer, d, was)
	present, _ = byVersion(s.asCalled(s.openOf(made.Timer.ID)), edited.Timer.Version)
	require.NotEmpty(t, present)
	s.requireBerlinShift(made.Timer.ID, berlinMoves, end)
}
