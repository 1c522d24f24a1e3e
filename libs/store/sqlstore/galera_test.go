package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestGalera runs the suite on a cluster. Each connection of the stores is to another node.
func TestGalera(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		g := testenv.Galera(t)
		env := storetest.Env{CoarseRetention: true}
		for range 2 {
			env.Stores = append(env.Stores, openMySQL(t, sqlstore.MySQLOptions{DSN: g.DSN}))
		}
		return env
	})
}

// TestMySQLWithout runs the suite without each capability, on a server that has it. It takes as long
// as three suites, so it runs only where there is a cluster, too.
func TestMySQLWithout(t *testing.T) {
	t.Parallel()
	testenv.Galera(t)
	for name, have := range map[string]engine.Capabilities{
		"row locks":   {NamedLocks: true, SkipLocked: true},
		"named locks": {RowLocks: true, SkipLocked: true},
		"skip locked": {RowLocks: true, NamedLocks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent statements
			t.Run("suite", func(t *testing.T) {
				dbs := newDatabases(t, sqlstore.MySQLOptions{Have: &have})
				storetest.Run(t, func(t *testing.T) storetest.Env {
					t.Helper()
					dsn := dbs.take(t)
					env := storetest.Env{CoarseRetention: true}
					for range 2 {
						s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn, Have: &have})
						s.OnStatement(sent.watch)
						env.Stores = append(env.Stores, s)
					}
					return env
				})
			})
			if len(sent.sent) > 0 { // there is a server
				sent.requireMySQL8(t)
			}
		})
	}
}

// galeraStores opens a store per node.
func galeraStores(t *testing.T) []*sqlstore.Store {
	t.Helper()
	g := testenv.Galera(t)
	var stores []*sqlstore.Store
	for _, addr := range g.Addrs {
		stores = append(stores, openMySQL(t, sqlstore.MySQLOptions{DSN: g.Of(addr)}))
	}
	return stores
}

func TestGaleraIsDetected(t *testing.T) {
	t.Parallel()
	for _, s := range galeraStores(t) {
		require.Equal(t, engine.Capabilities{SkipLocked: true}, s.Capabilities())
	}
}

// atOnce runs one call per store at once.
func atOnce(stores []*sqlstore.Store, call func(i int, s *sqlstore.Store)) {
	var wait sync.WaitGroup
	for i, s := range stores {
		wait.Go(func() { call(i, s) })
	}
	wait.Wait()
}

// TestGaleraCountsUnderLocks adds keys to one app on all nodes at once. Each call counts the keys
// under a lock on the app's row, which it does not write.
func TestGaleraCountsUnderLocks(t *testing.T) {
	t.Parallel()
	stores := galeraStores(t)
	for round := range 20 {
		app := fmt.Sprint("app", round)
		errs := make([]error, len(stores))
		atOnce(stores, func(i int, s *sqlstore.Store) {
			errs[i] = s.AddSigningKey(t.Context(), app, store.SigningKey{
				ID: timer.ID(1000*round + i + 1), Kind: "hmac",
			})
		})
		added := 0
		for _, err := range errs {
			if err == nil {
				added++
				continue
			}
			require.Equal(t, timer.CodeConflict, timer.CodeOf(err))
		}
		require.Equal(t, 2, added, "round %d", round)
	}
}

// TestGaleraSharesLocks replaces a calendar while other nodes create timers that name it. Each timer
// has the new content, or is marked for a replan.
func TestGaleraSharesLocks(t *testing.T) {
	t.Parallel()
	stores := galeraStores(t)
	const rounds, each = 15, 4
	for round := range rounds {
		app := fmt.Sprint("app", round)
		cal := func(day string) timer.Calendar {
			return timer.Calendar{Name: "c", ExcludedDates: []string{day}}
		}
		_, err := stores[0].PutCalendar(t.Context(), app, cal("2030-01-01"), 0)
		require.NoError(t, err)
		var mu sync.Mutex
		old := map[timer.ID]bool{} // planned with the old content
		atOnce(stores, func(i int, s *sqlstore.Store) {
			if i == 0 {
				_, err := s.PutCalendar(t.Context(), app, cal("2030-02-02"), 0)
				if err != nil {
					t.Error(err)
				}
				return
			}
			for n := range each {
				item := store.NewTimer{App: app, Name: fmt.Sprint(i, "-", n), Activate: true}
				item.Definition.Schedule.Calendars = []string{"c"}
				planned := ""
				made, err := s.Create(t.Context(), []store.NewTimer{item},
					func(tm *timer.Timer, _ int64) store.Plan {
						planned = tm.Calendars[0].ExcludedDates[0]
						return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
					})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				old[made[0].Timer.ID] = planned == "2030-01-01"
				mu.Unlock()
			}
		})
		for id, was := range old {
			if !was {
				continue
			}
			tm, err := stores[0].Timer(t.Context(), app, id)
			require.NoError(t, err)
			require.True(t, tm.Replan, "round %d: timer %v has the old calendar", round, id)
		}
	}
}

// TestGaleraMigratesTogether migrates on all nodes at once.
func TestGaleraMigratesTogether(t *testing.T) {
	t.Parallel()
	g := testenv.Galera(t)
	var stores []*sqlstore.Store
	for _, addr := range append(g.Addrs, g.Addrs...) {
		s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: g.Of(addr)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		stores = append(stores, s)
	}
	atOnce(stores, func(i int, s *sqlstore.Store) {
		if err := errors.Join(s.Migrate(t.Context()), s.Ping(t.Context())); err != nil {
			t.Errorf("store %d: %v", i, err)
		}
	})
}

// TestGaleraPartitionsTogether changes partitions on all nodes at once.
func TestGaleraPartitionsTogether(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60 * 1000
	stores := galeraStores(t)
	today := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	for range 4 {
		atOnce(stores, func(i int, s *sqlstore.Store) {
			if err := s.PurgePartitions(t.Context(), today, today-7*day); err != nil {
				t.Errorf("store %d: %v", i, err)
			}
		})
		today += 5 * day
	}
}

// TestMySQLNodesDiffer checks that a position which the clock of another node has made counts. Else
// the outcomes of the last hour would be published at each look.
func TestMySQLNodesDiffer(t *testing.T) {
	t.Parallel()
	s := openMySQL(t, sqlstore.MySQLOptions{
		DSN: testenv.MySQL(t), Have: &engine.Capabilities{NamedLocks: true, SkipLocked: true},
	})
	at := store.OutcomePosition{FinishedMS: time.Now().Add(30 * time.Second).UnixMilli()}
	require.NoError(t, s.AckEvents(t.Context(), store.SystemSession, at))
	earlier := store.OutcomePosition{FinishedMS: at.FinishedMS - 1}
	require.NoError(t, s.AckEvents(t.Context(), store.SystemSession, earlier))
	pending, err := s.SessionsWithPendingEvents(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, pending[store.SystemSession])
}

// TestMySQLTableLockIsTakenOver leaves the lock of migrations behind, as a killed process does.
func TestMySQLTableLockIsTakenOver(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{
		DSN: testenv.MySQL(t), Have: &engine.Capabilities{RowLocks: true, SkipLocked: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for _, text := range []string{
		"CREATE TABLE named_locks (name VARBINARY(64) NOT NULL, holder VARBINARY(32) NOT NULL, " +
			"renewals BIGINT NOT NULL, PRIMARY KEY (name))",
		"INSERT INTO named_locks VALUES ('migrate','killed',7)",
	} {
		_, err := s.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Ping(t.Context()))
	n, err := s.Exec(t.Context(), "UPDATE named_locks SET holder='killed' WHERE holder=''")
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "it is released")
	require.NoError(t, s.Migrate(t.Context()))
	n, err = s.Exec(t.Context(), "UPDATE named_locks SET holder='' WHERE holder='killed'")
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "nobody takes it when nothing is missing")
}

// TestGaleraEndsAKeyWithItsEntry commits a write to the app on another node while a key is ended. The
// cluster then rolls the transaction back, and a statement sent after that is one of its own.
func TestGaleraEndsAKeyWithItsEntry(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := testenv.Galera(t)
	other := openMySQL(t, sqlstore.MySQLOptions{DSN: g.Of(g.Addrs[1])})
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: g.Of(g.Addrs[0])})
	var armed, met atomic.Bool
	s.OnStatement(func(text string) {
		if !armed.Load() || !strings.Contains(text, "FROM signing_keys") || met.Swap(true) {
			return
		}
		if _, err := other.SetFrozen(ctx, "app", true, "x"); err != nil {
			t.Error(err)
		}
		time.Sleep(300 * time.Millisecond) // until this node has it
	})
	require.NoError(t, s.AddSigningKey(ctx, "app", store.SigningKey{ID: 1, Kind: "hmac"}))
	before, err := s.LastChange(ctx)
	require.NoError(t, err)
	armed.Store(true)
	require.NoError(t, s.RetireSigningKey(ctx, "app", 1))
	require.True(t, met.Load())
	changes, err := s.Changes(ctx, before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 2, "the freeze and the end of the key")
}
