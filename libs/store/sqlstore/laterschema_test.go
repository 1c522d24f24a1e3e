package sqlstore_test

import (
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// requireLaterSchemas applies unknown migrations and checks whether this program accepts the
// result.
func requireLaterSchemas(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	exec := func(text string) {
		t.Helper()
		_, err := s.Exec(ctx, text)
		require.NoError(t, err, text)
	}
	apply := func(version string) {
		t.Helper()
		exec("INSERT INTO goose_db_version (version_id,is_applied) VALUES (" + version + ",1)")
	}
	refused := func(yes bool) {
		t.Helper()
		for _, err := range []error{s.Migrate(ctx), s.Ping(ctx)} {
			if !yes {
				require.NoError(t, err)
				continue
			}
			var e *sqlstore.LaterSchemaError
			require.ErrorAs(t, err, &e)
			require.NotEqual(t, timer.CodeUnavailable, timer.CodeOf(err), "nobody waits for it")
			require.ErrorContains(t, err, "run the release that made it or a later one")
		}
	}
	require.NoError(t, s.Migrate(ctx))
	refused(false)
	own := strconv.FormatInt(sqlstore.SchemaVersion, 10)
	apply("901")
	refused(true) // no row says that this program may use it
	exec("INSERT INTO schema_readers (version,min_reader) VALUES (901," + own + ")")
	refused(false) // the schema of the next release
	apply("902")
	exec("INSERT INTO schema_readers (version,min_reader) VALUES (902,901)")
	refused(true) // it removed something
	exec("UPDATE schema_readers SET min_reader=1 WHERE version=902")
	refused(false)
	exec("DELETE FROM schema_readers WHERE version=901")
	refused(true) // the row of a later migration is not enough
	exec("DROP TABLE schema_readers")
	refused(true)
}

func TestMySQLRefusesLaterSchemas(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	requireLaterSchemas(t, s)
}

func TestSQLiteRefusesLaterSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(t, err)
	requireLaterSchemas(t, s)
	require.NoError(t, s.Close())
	_, err = sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	var e *sqlstore.LaterSchemaError
	require.ErrorAs(t, err, &e, "sessions are not even ended")
}

// TestMigrationsNameTheirReaders checks that every migration after the first adds its row to
// schema_readers.
func TestMigrationsNameTheirReaders(t *testing.T) {
	t.Parallel()
	const since = 1
	name := regexp.MustCompile(`^0*(\d+)_`)
	require.NoError(
		t,
		fs.WalkDir(sqlstore.Migrations(), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			n, err := strconv.Atoi(name.FindStringSubmatch(path.Base(p))[1])
			require.NoError(t, err)
			require.LessOrEqual(t, int64(n), sqlstore.SchemaVersion, p)
			if n > since {
				text, err := fs.ReadFile(sqlstore.Migrations(), p)
				require.NoError(t, err)
				require.Regexp(
					t,
					`INSERT INTO schema_readers \(version, ?min_reader\) VALUES \(`+strconv.Itoa(
						n,
					)+`, ?\d+\)`,
					string(text),
					p,
				)
			}
			return nil
		}),
	)
}
