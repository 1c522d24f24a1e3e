package sqlstore_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// TestMySQLMigrationCutOffHalfway repeats a migration that was cut off after some of its
// statements, each of which MySQL had committed.
func TestMySQLMigrationCutOffHalfway(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ctx := t.Context()
	text, err := fs.ReadFile(sqlstore.Migrations(), "migrations/mysql/00001_init.sql")
	require.NoError(t, err)
	statements := strings.SplitAfter(string(text), ";\n")
	require.Greater(t, len(statements), 20)
	for _, text := range statements[:len(statements)/2] {
		_, err := s.Exec(ctx, text)
		require.NoError(t, err, text)
	}
	require.NoError(t, s.Migrate(ctx))
	require.NoError(t, s.Ping(ctx))
	require.NoError(t, s.Migrate(ctx), "again")
}

// TestMySQLMigrationCutOffAtItsTable begins with goose's table without its first row: MySQL commits
// the table by itself.
func TestMySQLMigrationCutOffAtItsTable(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ctx := t.Context()
	_, err = s.Exec(ctx, "CREATE TABLE goose_db_version (id SERIAL,version_id BIGINT NOT NULL,"+
		"is_applied BOOLEAN NOT NULL,tstamp TIMESTAMP NULL DEFAULT now(),PRIMARY KEY (id))")
	require.NoError(t, err)
	require.NoError(t, s.Migrate(ctx))
	require.NoError(t, s.Ping(ctx))
}
