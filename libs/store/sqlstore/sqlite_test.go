package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/timer"
)

func openSQLite(t testing.TB, o sqlstore.SQLiteOptions) *sqlstore.Store {
	t.Helper()
	o.Logger = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s, err := sqlstore.OpenSQLite(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		return storetest.Env{Stores: []store.Store{openSQLite(t, sqlstore.SQLiteOptions{})}}
	})
}

// TestSQLiteFilesAreTheOwners checks that others on the host can read no timer, even in a directory
// that they can read.
func TestSQLiteFilesAreTheOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(
		t,
		s.OpenSession(
			t.Context(),
			store.Session{ID: 7, Kind: store.ExecutorSession, Name: "executor"},
		),
	)
	files, err := filepath.Glob(filepath.Join(dir, "carillon.db*"))
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

// TestSQLitePreparesEveryInsert prepares the inserts of few rows too, so that the whole contract
// judges prepared inserts, and those of a rest beside them.
func TestSQLitePreparesEveryInsert(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		s := openSQLite(t, sqlstore.SQLiteOptions{})
		s.SetPreparedRows(2)
		return storetest.Env{Stores: []store.Store{s}}
	})
}

// TestSQLiteSameIDs creates ids that exist already, as after a clock that was set back. A create
// detects it and takes others.
func TestSQLiteSameIDs(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{})
	var inserts int
	s.OnStatement(func(text string) {
		if strings.HasPrefix(text, "INSERT INTO timers ") {
			inserts++
		}
	})
	byID := map[timer.ID]string{}
	// One millisecond has 4,096 ids, fewer than are created.
	const rounds = 10
	for round := range rounds {
		s.SetIDs(func() time.Time { return time.UnixMilli(1_800_000_000_000) })
		items := make([]store.NewTimer, store.MaxBatch)
		for i := range items {
			items[i] = store.NewTimer{App: "app", Name: fmt.Sprint(round, "-", i)}
		}
		out, err := s.Create(t.Context(), items, nil)
		require.NoError(t, err)
		for i, c := range out {
			require.NoError(t, c.Err)
			require.False(t, c.Existing)
			require.NotContains(t, byID, c.Timer.ID)
			byID[c.Timer.ID] = items[i].Name
		}
	}
	require.Greater(t, inserts, rounds, "some were repeated")
}

// oneFire plans one fire at an instant.
func oneFire(due int64) store.Planner {
	return func(t *timer.Timer, _ int64) store.Plan {
		return store.Plan{
			Fires:     []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}},
			NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS,
		}
	}
}

// makeFires creates n timers with one fire each.
func makeFires(t testing.TB, s store.Store, prefix string, n int, due int64) []timer.Fire {
	t.Helper()
	var fires []timer.Fire
	for len(fires) < n {
		var items []store.NewTimer
		for range min(n-len(fires), store.MaxBatch) {
			name := fmt.Sprint(prefix, len(fires)+len(items))
			items = append(items, store.NewTimer{App: "app", Name: name, Activate: true})
		}
		out, err := s.Create(t.Context(), items, oneFire(due))
		require.NoError(t, err)
		for _, c := range out {
			require.NoError(t, c.Err)
			fires = append(fires, c.Fires...)
		}
	}
	return fires
}

func TestSQLiteKeepsDataAndEndsSessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, first.Migrate(t.Context()))
	fires := makeFires(t, first, "t", 10, 1000)
	require.NoError(
		t,
		first.OpenSession(
			t.Context(),
			store.Session{ID: 7, Kind: store.ExecutorSession, Name: "gone"},
		),
	)
	won, err := first.Claim(t.Context(), 7, fires)
	require.NoError(t, err)
	require.Len(t, won, 10)
	require.NoError(t, first.Close())

	second := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	live, err := second.LiveSessions(t.Context())
	require.NoError(t, err)
	require.Empty(t, live)
	alive, err := second.RenewSession(t.Context(), 7, store.Load{})
	require.NoError(t, err)
	require.False(t, alive)
	require.NoError(
		t,
		second.OpenSession(
			t.Context(),
			store.Session{ID: 8, Kind: store.ExecutorSession, Name: "successor"},
		),
	)
	won, err = second.Claim(t.Context(), 8, fires)
	require.NoError(t, err)
	require.Len(t, won, 10)
}

func TestSQLiteDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(t, err)
	_, err = sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	require.ErrorContains(t, err, "in use by another process")
	require.ErrorContains(t, err, fmt.Sprint(os.Getpid()))
	require.NoError(t, first.Close())
	openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	_, err = sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: "/dev/null/x"})
	require.Error(t, err)
}

// TestSQLiteOddDirectory uses a path with characters that have a meaning in a URI.
func TestSQLiteOddDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b%41?c#d&e=f")
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(t, s.Ping(t.Context()))
	require.FileExists(t, filepath.Join(dir, "carillon.db"))
}

func TestSQLitePingBeforeMigrations(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	err = s.Ping(t.Context())
	require.ErrorContains(t, err, "run the migrations")
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	for range 2 {
		require.NoError(t, s.Migrate(t.Context()))
	}
	require.NoError(t, s.Ping(t.Context()))
}

// TestSQLiteGroups runs calls of which some fail. Each has its own result, whatever group it is in.
func TestSQLiteGroups(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()})
	require.NoError(
		t,
		s.OpenSession(
			t.Context(),
			store.Session{ID: 1, Kind: store.ExecutorSession, Name: "taken"},
		),
	)
	var wait sync.WaitGroup
	var conflicts, opened atomic.Int64
	for i := range 200 {
		wait.Go(func() {
			id := timer.ID(1)
			if i%2 == 0 {
				id = timer.ID(100 + i)
			}
			err := s.OpenSession(
				t.Context(),
				store.Session{ID: id, Kind: store.ExecutorSession, Name: "x"},
			)
			switch {
			case err == nil:
				opened.Add(1)
			case timer.CodeOf(err) == timer.CodeConflict:
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 100, opened.Load())
	require.EqualValues(t, 100, conflicts.Load())
	live, err := s.LiveSessions(t.Context())
	require.NoError(t, err)
	require.Len(t, live, 101)
}

// TestSQLiteCallsThatGiveUp cancels calls while others write. None of them hangs, and each reported
// success is stored.
func TestSQLiteCallsThatGiveUp(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()})
	var wait sync.WaitGroup
	var opened atomic.Int64
	for i := range 200 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(
				t.Context(),
				time.Duration(i%10)*100*time.Microsecond,
			)
			defer cancel()
			err := s.OpenSession(
				ctx,
				store.Session{ID: timer.ID(100 + i), Kind: store.ExecutorSession, Name: "x"},
			)
			if err == nil {
				opened.Add(1)
			} else if timer.CodeOf(err) != timer.CodeUnavailable {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	live, err := s.LiveSessions(t.Context())
	require.NoError(t, err)
	require.Len(t, live, int(opened.Load()), "a call that gave up had not begun")
}

func TestSQLiteAfterClose(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			err := s.OpenSession(
				t.Context(),
				store.Session{ID: timer.ID(100 + i), Kind: store.ExecutorSession, Name: "x"},
			)
			if err != nil && timer.CodeOf(err) != timer.CodeUnavailable {
				t.Error(err)
			}
		})
	}
	require.NoError(t, s.Close())
	wait.Wait()
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(s.CloseSession(t.Context(), 1)))
	_, err = s.LiveSessions(t.Context())
	require.Error(t, err)
}

// TestSQLiteInABubble runs two days in a bubble: leases expire, fires become overdue, and
// PurgeExpired cleans up.
func TestSQLiteInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Now: time.Now})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		require.NoError(t, s.Migrate(t.Context()))
		ctx := t.Context()
		start := time.Now()
		_, err = s.Cursor(ctx, timer.MinuteOf(start.UnixMilli())+10_000)
		require.NoError(t, err)
		fires := makeFires(t, s, "t", 1, start.UnixMilli())
		for _, want := range []int{0, 1, 1} {
			found, err := s.Overdue(ctx, store.OverdueQuery{Shards: 1, Limit: 10})
			require.NoError(t, err)
			require.Len(t, found, want)
			time.Sleep(store.OverdueAfter)
		}

		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 1, Kind: store.ExecutorSession, Name: "ended"}),
		)
		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 2, Kind: store.ExecutorSession, Name: "alive"}),
		)
		_, err = s.Claim(ctx, 2, fires)
		require.NoError(t, err)
		require.NoError(t, s.CloseSession(ctx, 1))
		minute := timer.MinuteOf(start.UnixMilli())
		_, err = s.FreezeMinute(ctx, minute)
		require.NoError(t, err)
		_, err = s.ClaimSlices(ctx, minute, 1, time.Minute, 1)
		require.NoError(t, err)
		key := store.NewTimer{App: "app", Name: "k", IdempotencyKey: "k"}
		_, err = s.Create(ctx, []store.NewTimer{key}, nil)
		require.NoError(t, err)
		out, err := s.SetStatus(
			ctx,
			[]store.StatusChange{{App: "app", ID: fires[0].Timer, Status: timer.StatusInactive}},
			nil,
		)
		require.NoError(t, err)
		keep := func() {
			t.Helper()
			require.NoError(t, s.PurgeExpired(ctx, 7*24*time.Hour))
		}
		keep()
		counts := func() []int {
			t.Helper()
			minutes, err := s.MinuteCounts(ctx, minute, minute)
			require.NoError(t, err)
			claims, err := s.ClaimSlices(ctx, minute, 1, time.Minute, 1)
			require.NoError(t, err)
			changes, err := s.Changes(ctx, 0, 10)
			require.NoError(t, err)
			key.Name += "x"
			again, err := s.Create(ctx, []store.NewTimer{key}, nil)
			require.NoError(t, err)
			existing := 0
			if again[0].Existing {
				existing = 1
			}
			token := 0
			if len(claims) > 0 {
				token = int(claims[0].Token)
			}
			return []int{len(minutes), token, len(changes), existing}
		}
		require.Equal(t, []int{1, 0, 1, 1}, counts(), "nothing is old yet")
		time.Sleep(2 * time.Hour)
		last, err := s.SetStatus(
			ctx,
			[]store.StatusChange{{App: "app", ID: fires[0].Timer, Status: timer.StatusActive}},
			oneFire(1),
		)
		require.NoError(t, err)
		keep()
		require.Equal(
			t,
			[]int{1, 2, 2, 1},
			counts(),
			"of the old changes the last one stays, the lease has run out",
		)
		changes, err := s.Changes(ctx, 0, 10)
		require.NoError(t, err)
		require.Equal(t, out[0].Seq, changes[0].Seq)
		require.Equal(t, last[0].Seq, changes[1].Seq)
		time.Sleep(23 * time.Hour)
		keep()
		require.Equal(
			t,
			[]int{0, 1, 1, 0},
			counts(),
			"what is a day old is gone, but for the last change",
		)
		live, err := s.LiveSessions(ctx)
		require.NoError(t, err)
		require.Len(t, live, 1)
		alive, err := s.RenewSession(ctx, 1, store.Load{})
		require.NoError(t, err)
		require.False(t, alive, "also when its row is gone")
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSQLiteSearchesInSmallSteps searches in the orders of indexes, and sorts what is little.
func TestSQLiteSearchesInSmallSteps(t *testing.T) {
	t.Parallel()
	for _, exact := range []int{0, 10} {
		s := openSQLite(t, sqlstore.SQLiteOptions{})
		s.SetSearchLimits(exact)
		storetest.Searches(t, storetest.Env{Stores: []store.Store{s}})
	}
}

func TestEndedSignInsArePurged(t *testing.T) {
	t.Parallel()
	storetest.PurgeEndedSignIns(t, func(now func() time.Time) store.Store {
		return openSQLite(t, sqlstore.SQLiteOptions{Now: now})
	})
}
