package sqlstore_test

import (
	"testing"
	"time"

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
			err := s.OpenSession(t.Context(), 1, store.ExecutorSession, "x")
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
