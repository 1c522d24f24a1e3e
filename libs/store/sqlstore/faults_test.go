package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

func frequentFaults(seed uint64) *sqlstore.Faults {
	return &sqlstore.Faults{
		Seed:       seed,
		FailRead:   0.05,
		FailBefore: 0.1,
		FailAfter:  0.15,
		Delay:      2 * time.Millisecond,
	}
}

func TestSQLiteStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		s := openSQLite(t, sqlstore.SQLiteOptions{Faults: frequentFaults(seed)})
		storetest.Storm(t, []store.Store{s}, seed)
	}
}

func TestMySQLStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		dsn := testenv.MySQL(t)
		storetest.Storm(t, []store.Store{
			openMySQL(t, sqlstore.MySQLOptions{DSN: dsn, Faults: frequentFaults(seed)}),
			openMySQL(t, sqlstore.MySQLOptions{DSN: dsn, Faults: frequentFaults(seed + 100)}),
		}, seed)
	}
}

// TestMySQLStormWithSnapshotIsolation has a setting that is on by default since MariaDB 11.6, and
// with which claims that meet would fail. The store switches it off.
func TestMySQLStormWithSnapshotIsolation(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	var name, value string
	err = db.QueryRowContext(t.Context(), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").
		Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		t.Skip("the server has no innodb_snapshot_isolation: it is no MariaDB of 10.6.18 or later")
	}
	require.NoError(t, err)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_snapshot_isolation"] = "ON"
	dsn = cfg.FormatDSN()
	storetest.Storm(t, []store.Store{
		openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}),
		openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}),
	}, 3) //nolint:mnd // a seed
}

// TestFaults checks what each kind of fault leaves behind.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults sqlstore.Faults
		opened int
	}{
		{"before the commit nothing is done", sqlstore.Faults{FailBefore: 1}, 0},
		{"after the commit all is done", sqlstore.Faults{FailAfter: 1}, 1},
		{"no faults", sqlstore.Faults{Delay: time.Millisecond}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openSQLite(t, sqlstore.SQLiteOptions{Faults: &c.faults})
			err := s.OpenSession(
				t.Context(),
				store.Session{ID: 1, Kind: store.ExecutorSession, Name: "x"},
			)
			if c.faults.FailBefore+c.faults.FailAfter > 0 {
				require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
				require.ErrorContains(t, err, "injected")
			} else {
				require.NoError(t, err)
			}
			live, err := s.LiveSessions(t.Context())
			require.NoError(t, err)
			require.Len(t, live, c.opened)
		})
	}
	s := openSQLite(t, sqlstore.SQLiteOptions{Faults: &sqlstore.Faults{FailRead: 1}})
	_, err := s.LiveSessions(t.Context())
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
}

// TestAuditAfterFaults repeats each change until it succeeds, as callers do. Commits whose answer was
// lost have their entries, and the repetitions add none.
func TestAuditAfterFaults(t *testing.T) {
	t.Parallel()
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
			s := open(t)
			s.SetFaults(sqlstore.Faults{FailBefore: 0.2, FailAfter: 0.3})
			ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorKey, ID: "k"})
			retry := func(call func() error) {
				t.Helper()
				require.Eventually(t, func() bool { return call() == nil },
					10*time.Second, time.Microsecond)
			}
			want := make([]string, 0, 80)
			var made timer.Timer
			retry(func() error {
				out, err := s.Create(ctx, []store.NewTimer{{App: "app", Name: "t"}}, noPlan)
				if err == nil {
					made = out[0].Timer
				}
				return err
			})
			want = append(want, "create 0 1")
			for i := range int32(20) {
				retry(func() error {
					d := timer.Definition{Labels: map[string]string{"n": strconv.Itoa(int(i))}}
					edit := store.Edit{App: "app", ID: made.ID, Definition: d}
					_, err := s.Edit(ctx, []store.Edit{edit}, noPlan)
					return err
				})
				want = append(want, fmt.Sprint("update ", i+1, " ", i+2))
				for status, action := range map[timer.Status]store.AuditAction{
					timer.StatusActive: store.AuditResume, timer.StatusPaused: store.AuditPause,
				} {
					got, err := s.States(t.Context(), []timer.ID{made.ID})
					require.NoError(t, err)
					if got[0].Status == status {
						continue
					}
					if got[0].Status == timer.StatusInactive && status == timer.StatusActive {
						action = store.AuditActivate
					}
					retry(func() error {
						change := store.StatusChange{App: "app", ID: made.ID, Status: status}
						_, err := s.SetStatus(ctx, []store.StatusChange{change}, noPlan)
						return err
					})
					want = append(want, fmt.Sprint(action, " ", i+2, " ", i+2))
				}
			}
			s.SetFaults(sqlstore.Faults{})
			page, err := s.AuditTrail(ctx, store.AuditQuery{App: "app", ScanLimit: 200, Limit: 200})
			require.NoError(t, err)
			var got []string
			for _, e := range slices.Backward(page.Entries) {
				got = append(got, fmt.Sprint(e.Action, " ", e.BeforeVersion, " ", e.AfterVersion))
			}
			require.Equal(t, want, got)
		})
	}
}

// noPlan plans nothing.
func noPlan(t *timer.Timer, _ int64) store.Plan {
	return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: timer.NeverMS}
}
