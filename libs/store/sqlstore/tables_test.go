package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// tablesOfOthers are what other applications have in their databases, and the error that names it.
var tablesOfOthers = map[string]struct {
	make []string
	want string
}{
	"a table": {
		[]string{"CREATE TABLE timers (id BIGINT PRIMARY KEY, name VARCHAR(50), due BIGINT)"},
		"table timers is another application's, because it has no column app_id, live_name, ",
	},
	"a table that is read at the start": {
		[]string{"CREATE TABLE sessions (id BIGINT PRIMARY KEY)"},
		"table sessions is another application's, because it has no column ",
	},
	"migrations of goose": {
		[]string{
			"CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id BIGINT, is_applied INT, tstamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
			"INSERT INTO goose_db_version (id,version_id,is_applied) VALUES (1,0,1),(2,1,1)",
		},
		"table api_keys is missing, although goose_db_version has the migration that creates it",
	},
	"later migrations of goose": {
		[]string{
			"CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id BIGINT, is_applied INT, tstamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
			"INSERT INTO goose_db_version (id,version_id,is_applied) VALUES (1,0,1),(2,20250101,1)",
		},
		"if another application made goose_db_version",
	},
}

func requireRefused(t *testing.T, db *sql.DB, tables string, err error, want string) {
	t.Helper()
	require.ErrorContains(t, err, want)
	require.ErrorContains(t, err, "give Carillon a database of its own")
	require.NotEqual(t, timer.CodeUnavailable, timer.CodeOf(err), "nobody waits for it")
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), tables).Scan(&n))
	require.Equal(t, 1, n, "nothing was added to the database of the other application")
}

func TestMySQLRefusesTablesOfOthers(t *testing.T) {
	t.Parallel()
	for name, other := range tablesOfOthers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.MySQL(t)
			db, err := sql.Open("mysql", dsn)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			for _, text := range other.make {
				_, err := db.ExecContext(t.Context(), text)
				require.NoError(t, err)
			}
			s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: dsn})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			requireRefused(
				t,
				db,
				"SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE()",
				s.Migrate(t.Context()),
				other.want,
			)
		})
	}
}

func TestSQLiteRefusesTablesOfOthers(t *testing.T) {
	t.Parallel()
	for name, other := range tablesOfOthers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.SQLiteFile))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			for _, text := range other.make {
				_, err := db.ExecContext(t.Context(), text)
				require.NoError(t, err)
			}
			s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
			if err == nil {
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				err = s.Migrate(t.Context())
			}
			requireRefused(
				t,
				db,
				"SELECT COUNT(*) FROM sqlite_master WHERE type='table'",
				err,
				other.want,
			)
		})
	}
}
