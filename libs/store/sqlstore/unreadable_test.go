package sqlstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestUnreadableTimersStopNoOther checks that a definition or a calendar which this release cannot read
// stops the expansion, the backfill and the replan of no other timer.
func TestUnreadableTimersStopNoOther(t *testing.T) {
	t.Parallel()
	onEachEngine(t, unreadableStopNoOther)
}

// onEachEngine runs a test on a store of each engine.
func onEachEngine(t *testing.T, test func(t *testing.T, s *sqlstore.Store)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) *sqlstore.Store{
		"SQLite": func(t *testing.T) *sqlstore.Store {
			t.Helper()
			return openSQLite(t, sqlstore.SQLiteOptions{})
		},
		"MySQL": func(t *testing.T) *sqlstore.Store {
			t.Helper()
			return openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func unreadableStopNoOther(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)},
		Target:   timer.Target{Kind: timer.KindHTTP, URL: "https://example.com/"},
		Retry:    timer.DefaultRetry(),
	}
	_, err := s.PutCalendar(ctx, "a", timer.Calendar{Name: "c"}, 0)
	require.NoError(t, err)
	dated := d
	dated.Schedule.Calendars = []string{"c"}
	made, err := s.Create(ctx, []store.NewTimer{
		{App: "a", Name: "newer", Definition: d, Activate: true},
		{App: "a", Name: "gone", Definition: d, Activate: true},
		{App: "a", Name: "dated", Definition: dated, Activate: true},
		{App: "b", Name: "good", Definition: d, Activate: true},
	}, idlePlan)
	require.NoError(t, err)
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := s.Exec(ctx, text, args...)
		require.NoError(t, err)
	}
	for i := range made {
		require.NoError(t, made[i].Err)
		_, err := s.StartBackfill(ctx, store.Backfill{
			ID: timer.ID(
				i + 1,
			),
			App:    made[i].Timer.App,
			Timer:  made[i].Timer.ID,
			FromMS: 1,
			ToMS:   2,
		})
		require.NoError(t, err)
	}
	newer, gone, good := made[0].Timer.ID, made[1].Timer.ID, made[3].Timer.ID
	exec("UPDATE timer_versions SET definition=? WHERE timer_id=?",
		[]byte(newerDefinition), int64(newer))
	exec("DELETE FROM timer_versions WHERE timer_id=?", int64(gone))
	exec("UPDATE calendars SET content=?", []byte(newerCalendar))
	exec("UPDATE timers SET expand_at_ms=1")

	planned := map[timer.ID]int{}
	plan := func(tm *timer.Timer, nowMS int64) store.Plan {
		planned[tm.ID]++
		return idlePlan(tm, nowMS)
	}
	_, _, err = s.Expand(ctx, 10, plan)
	require.NoError(t, err)
	require.Equal(t, map[timer.ID]int{good: 1}, planned)
	n, _, err := s.ExpandBacklog(ctx, 10)
	require.NoError(t, err)
	require.Zero(t, n, "the others are postponed")

	_, _, err = s.ExpandBackfills(ctx, 10,
		func(tm *timer.Timer, b *store.Backfill, _ int64) ([]timer.Fire, int64, error) {
			planned[tm.ID]++
			return nil, b.ToMS, nil
		})
	require.NoError(t, err)
	require.Equal(t, map[timer.ID]int{good: 2}, planned)

	for i := range made {
		exec(
			"INSERT INTO replans (timer_id,until_ms,next_page_ms) VALUES (?,1,1)",
			int64(made[i].Timer.ID),
		)
	}
	_, _, err = s.ContinueReplans(ctx, plan)
	require.NoError(t, err)
	require.Equal(t, map[timer.ID]int{good: 3}, planned)

	deleted, err := s.SetStatus(ctx, []store.StatusChange{
		{App: "a", ID: newer, Status: timer.StatusDeleted},
	}, idlePlan)
	require.NoError(t, err)
	require.NoError(t, deleted[0].Err)
	exec("UPDATE backfills SET expand_at_ms=1 WHERE timer_id=?", int64(newer))
	_, _, err = s.ExpandBackfills(ctx, 10, nil)
	require.NoError(t, err)
	b, err := s.Backfill(ctx, "a", 1)
	require.NoError(t, err)
	require.Equal(t, store.BackfillCancelled, b.Status, "its timer is deleted")
}

// TestReencryptionKeepsWhatItDoesNotKnow checks that secrets of a definition which a newer release
// wrote stay as they are, with all fields, and that those of the others are reached.
func TestReencryptionKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		ctx := t.Context()
		d := timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)},
			Target: timer.Target{
				Kind: timer.KindHTTP, URL: "https://example.com/",
				SecretHeaders: map[string]timer.Sealed{"X-K": "cs1.old.x"},
			},
			Retry: timer.DefaultRetry(),
		}
		made, err := s.Create(ctx, []store.NewTimer{
			{App: "a", Name: "newer", Definition: d},
			{App: "a", Name: "damaged", Definition: d},
			{App: "a", Name: "good", Definition: d},
		}, idlePlan)
		require.NoError(t, err)
		var keys []store.VersionKey
		for i := range made {
			require.NoError(t, made[i].Err)
			keys = append(keys, store.VersionKey{Timer: made[i].Timer.ID, Version: 1})
		}
		slices.SortFunc(
			keys,
			func(a, b store.VersionKey) int { return cmp.Compare(a.Timer, b.Timer) },
		)
		const newer = `{"newer":{"a":1},"target":{"kind":"http","secret_headers":{"X-K":"cs1.old.x"}}}`
		for i, text := range []string{newer, `{"schedule":"cs1.old.x","target":"cs1.old.x"}`} {
			_, err = s.Exec(ctx, "UPDATE timer_versions SET definition=? WHERE timer_id=?",
				[]byte(text), int64(keys[i].Timer))
			require.NoError(t, err)
		}
		found, _, err := s.SealedVersions(ctx, store.VersionKey{}, 10)
		require.NoError(t, err)
		require.Len(t, found, 3)
		for _, k := range keys[:2] {
			require.Contains(t, found[k].Unreadable, "a newer release wrote it")
		}
		require.Empty(t, found[keys[2]].Unreadable)

		known := d // what an older release would make of the newer definition
		known.Target.SecretHeaders = map[string]timer.Sealed{"X-K": "cs1.new.x"}
		known.Target.URL, known.Schedule, known.Retry = "", timer.Schedule{}, timer.Retry{}
		require.ErrorContains(t, s.Reseal(ctx, keys[0], known), "a newer release wrote it")
		known = d
		known.Target.SecretHeaders = map[string]timer.Sealed{"X-K": "cs1.new.x"}
		require.NoError(t, s.Reseal(ctx, keys[2], known))
	})
}

// TestUnreadableTimersAreNamed checks that the log names each timer that is postponed, because those of
// one batch are due together again.
func TestUnreadableTimersAreNamed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{
		Logger: zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.WarnLevel),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	fires := makeFires(t, s, "t", 3, 1)
	for _, text := range []string{
		"DELETE FROM timer_versions", "UPDATE timers SET expand_at_ms=1",
	} {
		_, err := s.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	_, n, err := s.Expand(t.Context(), 10, oneFire(1))
	require.NoError(t, err)
	require.Zero(t, n)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, len(fires), log.String())
	for _, f := range fires {
		require.Contains(t, log.String(), fmt.Sprintf(`"timer":%d,`, f.Timer))
	}
}

// What tests put in place of a definition and of a calendar.
const (
	newerDefinition = `{"schedule":{"kind":{"of":"a newer release"}}}`
	newerCalendar   = `{"excluded_dates":{"of":"a newer release"}}`
)

// damaged creates the timers newer, gone, dated and good of the app "a", and damages the definitions
// of newer and gone and the calendar of dated. They are due each minute, and have no fires.
func damaged(t *testing.T, s *sqlstore.Store) (made []store.CreateResult) {
	t.Helper()
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)},
		Target:   timer.Target{Kind: timer.KindHTTP, URL: "https://example.com/"},
		Retry:    timer.DefaultRetry(),
		Labels:   map[string]string{"team": "pay"},
		Metrics:  true,
	}
	_, err := s.PutCalendar(t.Context(), "a", timer.Calendar{Name: "c"}, 0)
	require.NoError(t, err)
	dated := d
	dated.Schedule.Calendars = []string{"c"}
	made, err = s.Create(t.Context(), []store.NewTimer{
		{App: "a", Name: "newer", Definition: dated, Activate: true},
		{App: "a", Name: "gone", Definition: d, Activate: true},
		{App: "a", Name: "dated", Definition: dated, Activate: true},
		{App: "a", Name: "good", Definition: d, Activate: true},
	}, idlePlan)
	require.NoError(t, err)
	for i := range made {
		require.NoError(t, made[i].Err)
	}
	run(t, s, "UPDATE timer_versions SET definition=? WHERE timer_id=?",
		[]byte(newerDefinition), int64(made[0].Timer.ID))
	run(t, s, "DELETE FROM timer_versions WHERE timer_id=?", int64(made[1].Timer.ID))
	run(t, s, "UPDATE calendars SET content=?", []byte(newerCalendar))
	return made
}

func run(t *testing.T, s *sqlstore.Store, text string, args ...any) {
	t.Helper()
	_, err := s.Exec(t.Context(), text, args...)
	require.NoError(t, err)
}

// idlePlan plans no fires.
func idlePlan(*timer.Timer, int64) store.Plan {
	return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
}

// TestUnreadableDefinitionsHideNoOther checks that a read of definitions returns those that can be read,
// and marks one that cannot.
func TestUnreadableDefinitionsHideNoOther(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		made := damaged(t, s)
		keys := make([]store.VersionKey, len(made))
		for i := range made {
			keys[i] = store.VersionKey{Timer: made[i].Timer.ID, Version: 1}
		}
		defs, err := s.Definitions(t.Context(), keys)
		require.NoError(t, err)
		require.Len(t, defs, 3)
		require.Contains(t, defs[keys[0]].Unreadable, keys[0].Timer.String())
		require.Empty(t, defs[keys[0]].Labels, "what could be read of it is not taken for all")
		require.NotContains(t, defs, keys[1], "unknown")
		require.Empty(t, defs[keys[2]].Unreadable, "only its calendar is unreadable")
		require.Equal(t, made[3].Timer.Definition, *defs[keys[3]])
	})
}

// TestUnreadableTimersAreChanged checks that a timer that cannot be read can be paused, deactivated,
// deleted and replaced, together with others, and that nothing of it is left behind: S44.
func TestUnreadableTimersAreChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]store.StatusChange{
		"pause":      {Status: timer.StatusPaused, UntilMS: 5},
		"deactivate": {Status: timer.StatusInactive},
		"delete":     {Status: timer.StatusDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
				made := damaged(t, s)
				run(t, s, "UPDATE timers SET next_due_ms=1,expand_at_ms=1")
				set := func(c store.StatusChange) []store.StatusResult {
					items := make([]store.StatusChange, len(made))
					for i := range made {
						items[i] = c
						items[i].App, items[i].ID = "a", made[i].Timer.ID
					}
					out, err := s.SetStatus(t.Context(), items, idlePlan)
					require.NoError(t, err)
					return out
				}
				for i, r := range set(change) {
					require.NoError(t, r.Err)
					require.Equal(t, change.Status, r.Timer.Status)
					require.Equal(t, i < 3, r.Timer.Definition.Unreadable != "")
				}
				if change.Status == timer.StatusDeleted {
					for _, table := range []string{"timer_calendars", "timer_attributes"} {
						n, err := s.Exec(t.Context(), "DELETE FROM "+table+" WHERE timer_id>0")
						require.NoError(t, err)
						require.Zero(t, n, table)
					}
					return
				}
				again := set(store.StatusChange{Status: timer.StatusActive})
				for i := range again[:3] {
					require.Equal(t, timer.CodeConflict, timer.CodeOf(again[i].Err))
				}
				require.NoError(t, again[3].Err)
			})
		})
	}
	t.Run("edit", func(t *testing.T) {
		t.Parallel()
		onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
			made := damaged(t, s)
			run(t, s, "UPDATE timers SET next_due_ms=active_since_ms,expand_at_ms=1")
			d := made[3].Timer.Definition
			d.Labels = map[string]string{"env": "prod"}
			items := make([]store.Edit, len(made))
			for i := range made {
				items[i] = store.Edit{App: "a", ID: made[i].Timer.ID, Definition: d}
			}
			for range 2 { // the second changes nothing
				out, err := s.Edit(t.Context(), items, idlePlan)
				require.NoError(t, err)
				for i := range out {
					require.NoError(t, out[i].Err)
					require.Equal(t, d, out[i].Timer.Definition)
					require.EqualValues(t, 2, out[i].Timer.Version)
				}
			}
			n, err := s.Exec(t.Context(), "DELETE FROM timer_calendars")
			require.NoError(t, err)
			require.Zero(t, n)
			n, err = s.Exec(t.Context(), "DELETE FROM timer_attributes WHERE timer_id>0")
			require.NoError(t, err)
			require.EqualValues(t, 3*len(made), n, "label, host and metrics of each")
			last, err := s.LastOutcomes(
				t.Context(),
				[]timer.ID{items[0].ID, items[1].ID, items[3].ID},
			)
			require.NoError(t, err)
			require.Len(t, last, 2, "what came due by a definition that nobody can read")
		})
	})
}

// TestUnreadableTimersArePurged checks that a deleted timer that cannot be read keeps no other.
func TestUnreadableTimersArePurged(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		made := damaged(t, s)
		for i := range made {
			_, err := s.SetStatus(t.Context(), []store.StatusChange{
				{App: "a", ID: made[i].Timer.ID, Status: timer.StatusDeleted},
			}, idlePlan)
			require.NoError(t, err)
		}
		run(t, s, "UPDATE timers SET expand_at_ms=1,updated_ms=1")
		require.NoError(t, s.PurgeTimers(t.Context(), 24*time.Hour, 24*time.Hour))
		n, err := s.Exec(t.Context(), "DELETE FROM timers")
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// TestNamesOfUnreadableTimersAreTaken checks that a create finds the name of a timer that cannot be
// read, and that other creates beside it succeed.
func TestNamesOfUnreadableTimersAreTaken(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		made := damaged(t, s)
		d := made[3].Timer.Definition
		out, err := s.Create(t.Context(), []store.NewTimer{
			{App: "a", Name: "newer", Definition: d},
			{App: "a", Name: "another", Definition: d},
		}, idlePlan)
		require.NoError(t, err)
		require.True(t, store.IsNameTaken(out[0].Err))
		require.NoError(t, out[1].Err)
	})
}

// TestUnreadableTimersAreListed checks that lists and searches have a timer that cannot be read, with
// what its row tells, and all others.
func TestUnreadableTimersAreListed(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		made := damaged(t, s)
		run(t, s, "UPDATE timers SET next_due_ms=1") // so that it does not tell the next instant
		check := func(all []timer.Timer, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Len(t, all, len(made))
			for i := range all {
				want := made[i].Timer
				require.Equal(t, want.ID, all[i].ID)
				require.Equal(t, want.Name, all[i].Name)
				require.Equal(t, timer.StatusActive, all[i].Status)
				require.Equal(t, i < 3, all[i].Definition.Unreadable != "", want.Name)
			}
		}
		check(s.List(t.Context(), store.Query{App: "a", Limit: 10}))
		for _, sort := range []store.Sort{store.SortID, store.SortNextDue} {
			page, err := s.Search(t.Context(), store.SearchQuery{
				Filter: store.Filter{App: "a"}, Sort: sort, Limit: 10,
				NextDue: func(_ context.Context, t *timer.Timer) (int64, error) {
					if t.Definition.Unreadable != "" {
						return 0, errors.New("asked for an unreadable timer")
					}
					return timer.NeverMS, nil
				},
			})
			check(page.Timers, err)
		}
		var each, named []timer.Timer
		for i := range made {
			one, err := s.Timer(t.Context(), "a", made[i].Timer.ID)
			require.NoError(t, err)
			each = append(each, one)
			one, err = s.TimerByName(t.Context(), "a", made[i].Timer.Name)
			require.NoError(t, err)
			named = append(named, one)
		}
		check(each, nil)
		check(named, nil)
	})
}

// TestChainsOfUnreadableTimersGoOn checks that outcomes with a successor are recorded together, whether
// or not their definitions can be read.
func TestChainsOfUnreadableTimersGoOn(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		ctx := t.Context()
		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 7, Kind: store.ExecutorSession, Name: "one"}),
		)
		fires := makeFires(t, s, "t", 3, 1000)
		won, err := s.Claim(ctx, 7, fires)
		require.NoError(t, err)
		require.Len(t, won, 3)
		run(t, s, "UPDATE timer_versions SET definition=? WHERE timer_id=?",
			[]byte(newerDefinition), int64(fires[0].Timer))
		run(t, s, "DELETE FROM timer_versions WHERE timer_id=?", int64(fires[1].Timer))
		outcomes := make([]timer.Outcome, len(won))
		for i := range won {
			next := won[i]
			next.DueMS, next.RunAtMS = 2000, 2000
			outcomes[i] = timer.Outcome{
				Fire: won[i], Kind: timer.Delivered, Attempts: 1, Count: 1, Serial: true,
				FinishedMS: 1500, UntilMS: won[i].DueMS, Next: &next,
			}
		}
		lost, made, err := s.Record(ctx, 7, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		require.Len(t, made, 3)
	})
}

// TestUnreadableTimersEndNoWalk checks that a change of time zones reaches the timers behind one that
// cannot be read, and marks that one, too.
func TestUnreadableTimersEndNoWalk(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		ctx := t.Context()
		damaged(t, s)
		run(t, s, "UPDATE timers SET replan=0")
		for id, rule := range map[timer.ID]string{1: "1", 2: "2"} {
			require.NoError(t, s.RegisterProcess(ctx,
				store.Process{ID: id, Name: "p", Version: rule, Expands: true},
				map[string]string{"UTC": "0", "Europe/Berlin": rule}))
		}
		step, err := s.ReplanZones(ctx, 2, 10)
		require.NoError(t, err)
		require.False(t, step.More)
		require.Equal(t, 3, step.Marked, "without the one that no zone concerns")
	})
}

// TestUnreadableTimersAreRun checks that a timer that cannot be read gets added and redriven fires, as
// the others of a page do: a process of another release may call them.
func TestUnreadableTimersAreRun(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		ctx := t.Context()
		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 7, Kind: store.ExecutorSession, Name: "one"}),
		)
		fires := makeFires(t, s, "t", 2, 1000)
		won, err := s.Claim(ctx, 7, fires)
		require.NoError(t, err)
		require.Len(t, won, 2)
		outcomes := make([]timer.Outcome, len(won))
		for i := range won {
			outcomes[i] = timer.Outcome{
				Fire: won[i], Kind: timer.Failed, Failure: timer.FailureStatus,
				Attempts: 1, Count: 1, FinishedMS: 1500, UntilMS: won[i].DueMS,
			}
		}
		_, _, err = s.Record(ctx, 7, outcomes, nil)
		require.NoError(t, err)
		unread := fires[0].Timer
		run(t, s, "UPDATE timer_versions SET definition=? WHERE timer_id=?",
			[]byte(newerDefinition), int64(unread))

		one, err := s.Timer(ctx, "app", unread)
		require.NoError(t, err)
		require.NotEmpty(t, one.Definition.Unreadable)
		added, err := s.AddFires(ctx, one.App, unread, []timer.Fire{
			{FireID: timer.FireID{Timer: unread, DueMS: 2000, Series: 5}, RunAtMS: 2000},
		})
		require.NoError(t, err)
		require.Len(t, added, 1)
		require.Equal(t, one.Version, added[0].Version)

		done, err := s.Redrive(ctx, store.DeadLetterQuery{App: one.App, Series: 6})
		require.NoError(t, err)
		require.Len(t, done.Outcomes, 2)
		require.Len(t, done.Fires, 2)
	})
}
