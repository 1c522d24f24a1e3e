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
