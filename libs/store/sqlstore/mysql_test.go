package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

func openMySQL(t testing.TB, o sqlstore.MySQLOptions) *sqlstore.Store {
	t.Helper()
	o.Logger = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	if o.MaxOpen == 0 {
		o.MaxOpen = 6
	}
	s, err := sqlstore.OpenMySQL(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

// TestMySQL runs the suite with two stores on each database, as two processes have. Every statement
// must also be valid on MySQL 8.
//
//nolint:tparallel // what the suite sent is looked at when it has ended
func TestMySQL(t *testing.T) {
	t.Parallel()
	var sent statements
	t.Run("suite", func(t *testing.T) {
		dbs := newDatabases(t, sqlstore.MySQLOptions{})
		storetest.Run(t, func(t *testing.T) storetest.Env {
			t.Helper()
			dsn := dbs.take(t)
			env := storetest.Env{CoarseRetention: true}
			for range 2 {
				s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
				s.OnStatement(sent.watch)
				env.Stores = append(env.Stores, s)
			}
			return env
		})
	})
	if len(sent.sent) == 0 {
		t.Skip("no statements were sent: there is no server")
	}
	sent.requireMySQL8(t)
}

func TestMySQLDSN(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", "nonsense", "user@tcp(host:3306)/", "user@tcp(host:3306)/db?parseTime=perhaps"} {
		_, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: dsn})
		require.Equal(t, timer.CodeInvalid, timer.CodeOf(err), "%q: %v", dsn, err)
	}
}

// TestMySQLMigrationsMayPause checks that a process may stall between two statements of a
// migration.
func TestMySQLMigrationsMayPause(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.MigrationPool(testenv.MySQL(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var silence int
	require.NoError(
		t,
		db.QueryRowContext(t.Context(), "SELECT @@SESSION.wait_timeout").Scan(&silence),
	)
	require.GreaterOrEqual(t, silence, 60)
}

// TestMySQLUnavailable opens a store whose server is not there. This is no error, but every call
// returns one.
func TestMySQLUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	s, err := sqlstore.OpenMySQL(
		t.Context(),
		sqlstore.MySQLOptions{DSN: "u:p@tcp(" + addr + ")/db", Timeout: time.Second},
	)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for name, call := range map[string]func() error{
		"ping":    func() error { return s.Ping(t.Context()) },
		"migrate": func() error { return s.Migrate(t.Context()) },
		"keep":    func() error { return s.PurgeExpired(t.Context(), time.Hour) },
		"renew": func() error {
			_, err := s.RenewSession(t.Context(), 1, store.Load{})
			return err
		},
		"create": func() error {
			_, err := s.Create(t.Context(), []store.NewTimer{{App: "a", Name: "b"}}, nil)
			return err
		},
		"claim": func() error {
			_, err := s.Claim(t.Context(), 1, []timer.Fire{{FireID: timer.FireID{Timer: 1, DueMS: 1}}})
			return err
		},
		"record": func() error {
			_, _, err := s.Record(t.Context(), 1, []timer.Outcome{{Fire: timer.Fire{FireID: timer.FireID{Timer: 1}}}}, nil)
			return err
		},
	} {
		require.Equal(t, timer.CodeUnavailable, timer.CodeOf(call()), name)
	}
}

// TestMySQLMigrateTogether migrates from several processes at once.
func TestMySQLMigrateTogether(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	var wait sync.WaitGroup
	for range 5 {
		s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: dsn})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		wait.Go(func() {
			if err := errors.Join(s.Migrate(t.Context()), s.Ping(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestMySQLMigrateWaitsLong checks that a process waits for the migrations of another longer than a
// connection waits for an answer.
func TestMySQLMigrateWaitsLong(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	other, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer other.Close()
	conn, err := other.Connx(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	var got int
	lock := sqlstore.MigrateLock(cfg.DBName)
	require.NoError(t, conn.GetContext(t.Context(), &got, "SELECT GET_LOCK(?,0)", lock))
	require.Equal(t, 1, got)
	cfg.ReadTimeout = 5 * time.Second
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: cfg.FormatDSN()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	migrated := make(chan error, 1)
	go func() { migrated <- s.Migrate(t.Context()) }()
	require.NoError(t, conn.GetContext(t.Context(), &got, "SELECT SLEEP(8)"))
	require.Empty(t, migrated)
	require.NoError(t, conn.GetContext(t.Context(), &got, "SELECT RELEASE_LOCK(?)", lock))
	require.NoError(t, <-migrated)
}

// TestMySQLLockNameNeverChanges: two releases that migrate at once must take the same lock.
func TestMySQLLockNameNeverChanges(t *testing.T) {
	t.Parallel()
	require.Equal(
		t,
		"carillon-migrate-653180fd5560ed795fbce3fa4c65b351",
		sqlstore.MigrateLock("carillon"),
	)
}

// TestMySQLPingBeforeMigrations checks that a missing schema is reported as unavailable.
func TestMySQLPingBeforeMigrations(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(s.Ping(t.Context())))
	_, err = s.LiveSessions(t.Context())
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
}

// TestMySQLSameIDs lets two processes create the same ids. Each detects this and takes others.
func TestMySQLSameIDs(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	var stores []*sqlstore.Store
	var made atomic.Int64
	for range 4 {
		s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
		// The clock moves by a few ids with each reading, in the same way in each store. Only the
		// low bits are random.
		var tick atomic.Int64
		s.SetIDs(func() time.Time { return time.UnixMilli(1_800_000_000_000 + tick.Add(1)/2000) })
		stores = append(stores, s)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	byID := map[timer.ID]string{}
	for n, s := range stores {
		wait.Go(func() {
			for round := range 4 {
				var items []store.NewTimer
				for i := range 500 {
					// Half of the names are shared.
					name := fmt.Sprint("shared", round, "-", i)
					if i%2 == 0 {
						name = fmt.Sprint(n, "-", round, "-", i)
					}
					items = append(items, store.NewTimer{App: "app", Name: name})
				}
				out, err := s.Create(t.Context(), items, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, c := range out {
					if other, ok := byID[c.Timer.ID]; ok && other != c.Timer.Name {
						t.Errorf("id %v is %q and %q", c.Timer.ID, other, c.Timer.Name)
					}
					byID[c.Timer.ID] = c.Timer.Name
					if !c.Existing {
						made.Add(1)
					}
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 4*4*250+4*250, made.Load())
	require.Len(t, byID, int(made.Load()))
}

// TestMySQLPartitions runs weeks of PurgeExpired: days get partitions ahead of time, and old ones
// are dropped.
func TestMySQLPartitions(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60 * 1000
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	partitions := func() (names []string) {
		t.Helper()
		require.NoError(
			t,
			db.Select(
				&names,
				"SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() "+
					"AND TABLE_NAME='outcomes' ORDER BY PARTITION_ORDINAL_POSITION",
			),
		)
		return names
	}
	today := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	require.Equal(t, []string{"pmax"}, partitions())
	for range 2 {
		require.NoError(t, s.PurgePartitions(t.Context(), today, today-7*day))
		names := partitions()
		require.Len(t, names, 16, "rows of the next two weeks need no copy")
		require.Equal(t, "p20260301", names[0])
		require.Equal(t, []string{"p20260315", "pmax"}, names[14:])
	}
	require.NoError(
		t,
		s.OpenSession(t.Context(), store.Session{ID: 1, Kind: store.ExecutorSession, Name: "x"}),
	)
	fires := makeFires(t, s, "t", 25, today)
	won, err := s.Claim(t.Context(), 1, fires)
	require.NoError(t, err)
	require.Len(t, won, 25)
	var outcomes []timer.Outcome
	var attempts []timer.Attempt
	for i, f := range won {
		at := today + int64(i-1)*day
		outcomes = append(
			outcomes,
			timer.Outcome{
				Fire:       f,
				Kind:       timer.Delivered,
				FinishedMS: at,
				UntilMS:    f.DueMS,
				Count:      1,
			},
		)
		attempts = append(attempts, timer.Attempt{FireID: f.FireID, N: 1, StartMS: at})
	}
	lost, _, err := s.Record(t.Context(), 1, outcomes, attempts)
	require.NoError(t, err)
	require.Empty(t, lost)

	// PurgeExpired did not run for twenty days, so the days in pmax get their partitions late.
	// Partitions wholly before the bound are dropped.
	later := today + 20*day
	require.NoError(t, s.PurgePartitions(t.Context(), later, later-7*day))
	names := partitions()
	require.Equal(t, "p20260314", names[0])
	require.Equal(t, "p20260404", names[len(names)-2])
	require.Equal(t, "pmax", names[len(names)-1])
	for i, f := range won {
		rec, err := s.Fire(t.Context(), "app", f.FireID)
		if outcomes[i].FinishedMS < later-7*day-day/2 {
			require.Equal(t, timer.CodeNotFound, timer.CodeOf(err), "day %d", i-1)
			continue
		}
		require.NoError(t, err)
		require.NotNil(t, rec.Outcome, "day %d", i-1)
		require.Len(t, rec.Attempts, 1)
	}
}

// TestMySQLPartitionsOfATableInUse keeps a transaction open that has read the history. Nothing tells
// so at first, because the next call may succeed. After days PurgeExpired does.
func TestMySQLPartitionsOfATableInUse(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60 * 1000
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
	today := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	purge := func(after int64) error {
		return s.PurgePartitions(t.Context(), today+after*day, today+(after-7)*day)
	}
	require.NoError(t, purge(0))
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.BeginTxx(t.Context(), nil)
	require.NoError(t, err)
	var rows int
	require.NoError(t, tx.Get(&rows, "SELECT COUNT(*) FROM outcomes"))
	require.NoError(t, purge(1))
	require.ErrorContains(t, purge(3), "the partitions of outcomes could not be changed")
	require.NoError(t, tx.Rollback())
	require.NoError(t, purge(3))
}

// TestMySQLPingWaitsBehindNoCall: while all connections are in use the database is available, only
// slow. Otherwise all processes of a service would become unready at once.
func TestMySQLPingWaitsBehindNoCall(t *testing.T) {
	t.Parallel()
	const most = 2
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t), MaxOpen: most})
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range most {
		wait.Go(func() { _, _ = s.Exec(ctx, "SELECT SLEEP(60)") })
	}
	defer wait.Wait()
	defer stop()
	require.Eventually(t, func() bool {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := s.Exec(short, "DO 0")
		return err != nil
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Ping(ctx))
}

// TestMySQLServerSettings checks that Ping reads the settings of the connections that it would use.
func TestMySQLServerSettings(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	s := openMySQL(
		t,
		sqlstore.MySQLOptions{
			DSN: dsn + "?sql_mode=''&time_zone='%2B05:00'&interpolateParams=false",
		},
	)
	require.NoError(t, s.Ping(t.Context()), "the store's settings win over the DSN's")
	at, err := s.Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
}

// TestMySQLRights checks that a user who may not create tables is told so, and that the check of one
// who may leaves nothing.
func TestMySQLRights(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
	require.NoError(t, s.CheckRights(t.Context()))
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	var left []string
	require.NoError(t, db.Select(&left, `SHOW TABLES LIKE 'carillon\_check\_%'`))
	require.Empty(t, left)

	var readOnly struct {
		Name  string `db:"Variable_name"`
		Value string `db:"Value"`
	}
	require.NoError(t, db.Get(&readOnly,
		"SHOW VARIABLES WHERE Variable_name IN ('tx_read_only','transaction_read_only')"))
	reader := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn + "?" + readOnly.Name + "=1"})
	require.ErrorContains(t, reader.CheckRights(t.Context()),
		"the user needs all rights on the database, among them CREATE")
}

// TestMySQLReadsLongListsByRanges checks on MariaDB that it writes no temporary table of a long list
// of keys, with which it would join the fires in an order of its own.
func TestMySQLReadsLongListsByRanges(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	var has []struct {
		Name  string `db:"Variable_name"`
		Value string `db:"Value"`
	}
	require.NoError(t, db.Select(&has, "SHOW VARIABLES LIKE 'in_predicate_conversion_threshold'"))
	for range has {
		n, err := s.Number(t.Context(), "SELECT @@in_predicate_conversion_threshold")
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// TestMySQLLockWait locks a timer's row for longer than a statement waits. The transaction is
// repeated and does not fail.
func TestMySQLLockWait(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn, Timeout: time.Minute})
	f := makeFires(t, s, "t", 1, 1000)[0]
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.Beginx()
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE timers SET updated_ms=1 WHERE id=?", int64(f.Timer))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		out, err := s.SetStatus(
			t.Context(),
			[]store.StatusChange{{App: "app", ID: f.Timer, Status: timer.StatusInactive}},
			nil,
		)
		if err == nil {
			err = out[0].Err
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
	case <-time.After(6 * time.Second):
	}
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-done)
}

// TestMySQLStalledTransactionLosesItsLocks checks that a process that stalls in a transaction
// blocks nobody for long. Its transaction is then repeated: MariaDB has only ended the connection,
// MySQL also says why.
func TestMySQLStalledTransactionLosesItsLocks(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	frozen, other := openMySQL(
		t,
		sqlstore.MySQLOptions{DSN: dsn, Timeout: time.Minute},
	), openMySQL(
		t,
		sqlstore.MySQLOptions{DSN: dsn},
	)
	plan := func(*timer.Timer, int64) store.Plan {
		return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
	}
	made, err := frozen.Create(t.Context(), []store.NewTimer{{App: "a", Name: "n"}}, plan)
	require.NoError(t, err)
	change := store.StatusChange{App: "a", ID: made[0].Timer.ID, Status: timer.StatusActive}

	locked, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		// The row is locked.
		_, err := frozen.SetStatus(
			t.Context(),
			[]store.StatusChange{change},
			func(*timer.Timer, int64) store.Plan {
				once.Do(func() { close(locked) })
				<-wake
				return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			},
		)
		done <- err
	}()
	<-locked
	out, err := other.SetStatus(t.Context(), []store.StatusChange{change}, plan)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.NotZero(t, out[0].Seq, "the frozen one's change was rolled back")
	close(wake)
	require.NoError(t, <-done)
}

// TestMySQLSearchesInSmallSteps is TestSQLiteSearchesInSmallSteps on MySQL.
func TestMySQLSearchesInSmallSteps(t *testing.T) {
	t.Parallel()
	for _, exact := range []int{0, 10} {
		s := openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
		s.SetSearchLimits(exact)
		storetest.Searches(t, storetest.Env{Stores: []store.Store{s}})
	}
}

// TestMySQLIdsOfALostApp gives the id of an app to another one, as a server does that took over from
// one whose last commits it lacks. A process that knows the old id must not write under it.
func TestMySQLIdsOfALostApp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testenv.MySQL(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	create := func(app, name string) error {
		_, err := s.Create(ctx, []store.NewTimer{{App: app, Name: name}}, nil)
		return err
	}
	require.NoError(t, create("lost", "a"))
	var id int64
	require.NoError(t, db.Get(&id, "SELECT id FROM apps WHERE name='lost'"))
	db.MustExec("DELETE FROM timers")
	db.MustExec("DELETE FROM timer_versions")
	db.MustExec("UPDATE apps SET name='other' WHERE id=?", id)
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(create("lost", "b")))
	require.NoError(t, create("lost", "b"), "a repeated call makes the app anew")
	var apps []string
	require.NoError(t, db.Select(
		&apps, "SELECT a.name FROM timers t JOIN apps a ON a.id=t.app_id"))
	require.Equal(t, []string{"lost"}, apps)
}
