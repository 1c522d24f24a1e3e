package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// TestPurgeTakesTurns lets more rows of one table expire than one purge removes. That purge says so,
// and what expired in another table is gone as well.
func TestPurgeTakesTurns(t *testing.T) {
	t.Parallel()
	const expired = 201_500
	dir := t.TempDir()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.SQLiteFile))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	add := func(table string, n int, at time.Time) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (
			SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?)
			INSERT INTO `+table+` SELECT `+map[string]string{
			"timer_changes":    "NULL,i,0,?",
			"idempotency_keys": "1,'k'||i,x'00',1,1,?",
		}[table]+` FROM n`, n, at.UnixMilli())
		require.NoError(t, err)
	}
	count := func(table string) (n int) {
		t.Helper()
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
		return n
	}
	purge := func() error { return s.PurgeExpired(t.Context(), 7*24*time.Hour) }
	longAgo := time.Now().Add(-48 * time.Hour)
	add("timer_changes", expired, longAgo)
	add("idempotency_keys", 10, longAgo)
	require.ErrorIs(t, purge(), store.ErrMoreExpired)
	require.Zero(t, count("idempotency_keys"))
	require.Positive(t, count("timer_changes"))
	require.NoError(t, purge())
	require.Equal(t, 1, count("timer_changes"), "the last one stays")

	add("timer_changes", 1500, longAgo)
	add("timer_changes", 5, time.Now())
	add("timer_changes", 5, longAgo) // by a clock that is behind
	require.NoError(t, purge())
	require.Equal(t, 11, count("timer_changes"), "and the last that is older")

	add("idempotency_keys", expired, longAgo)
	require.ErrorIs(t, purge(), store.ErrMoreExpired)
	require.NoError(t, purge())
	require.Zero(t, count("idempotency_keys"))
}

// TestPurgePassesRowsOfTheFuture dates rows of the logs in the future, as a clock does that is far
// ahead for a moment. What is behind them is purged, and rows of the present end the purge.
func TestPurgePassesRowsOfTheFuture(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{})
	now := time.Now()
	for _, log := range []struct {
		table, columns string
		kept           int
	}{
		{"timer_changes", "(timer_id,changed_ms) SELECT 1", 1},
		{"audit_log", "(app_id,actor_kind,actor_id,actor_name,address,request_id,job_id,action,kind," +
			"resource,name,before_version,after_version,before_state,after_state,changed_ms) " +
			"SELECT 1,'','','','','',0,'','','','',0,0,x'',x''", 0},
	} {
		add := func(n int, at time.Time) {
			t.Helper()
			_, err := s.Exec(t.Context(), "INSERT INTO "+log.table+" "+log.columns+`,? FROM (
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) SELECT i FROM n)`,
				at.UnixMilli(), n)
			require.NoError(t, err)
		}
		purge := func() {
			t.Helper()
			require.NoError(t, s.PurgeExpired(t.Context(), 24*time.Hour))
			require.NoError(t, s.PurgeAudit(t.Context(), 24*time.Hour))
		}
		requireRows := func(want int) {
			t.Helper()
			n, err := s.Number(t.Context(), "SELECT COUNT(*) FROM "+log.table)
			require.NoError(t, err)
			require.Equal(t, want+log.kept, n, log.table)
		}
		const future, old, later = 2500, 2100, 1100 // more than a chunk each
		add(1, now.Add(-48*time.Hour))
		add(future, now.Add(10*365*24*time.Hour))
		add(old, now.Add(-48*time.Hour))
		add(5, now)
		add(later, now.Add(-48*time.Hour)) // by a clock that is behind
		purge()
		requireRows(future + 5 + later)
		purge()
		requireRows(future + 5 + later)
	}
}

// TestReadersFindTheirEntryOfTheChangeLog purges by two processes at once, where there are two.
func TestReadersFindTheirEntryOfTheChangeLog(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, stores ...*sqlstore.Store) {
		t.Helper()
		var env storetest.Env
		for _, s := range stores {
			env.Stores = append(env.Stores, s)
		}
		storetest.ReadersFindTheirEntry(t, env, func(d time.Duration) {
			_, err := stores[0].Exec(t.Context(),
				"UPDATE timer_changes SET changed_ms=changed_ms-?", d.Milliseconds())
			require.NoError(t, err)
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, openSQLite(t, sqlstore.SQLiteOptions{}))
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		o := sqlstore.MySQLOptions{DSN: testenv.MySQL(t)}
		test(t, openMySQL(t, o), openMySQL(t, o))
	})
}
