package sqlstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// migratedStores returns a new store on each engine.
func migratedStores(t *testing.T) []*Store {
	t.Helper()
	dsn := testenv.MySQL(t)
	sqlite, err := OpenSQLite(t.Context(), SQLiteOptions{})
	require.NoError(t, err)
	mysql, err := OpenMySQL(t.Context(), MySQLOptions{DSN: dsn})
	require.NoError(t, err)
	stores := []*Store{sqlite, mysql}
	for _, s := range stores {
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		require.NoError(t, s.Migrate(t.Context()))
	}
	return stores
}

// TestTablesOfBackups names what a migration has to decide about a new table: it is in backups, or
// in leftOutTables with a reason. Both engines must agree, because a backup of one is restored into
// the other.
func TestTablesOfBackups(t *testing.T) {
	t.Parallel()
	tables := map[string][]*backupTable{}
	created := map[string]bool{}
	for _, s := range migratedStores(t) {
		var err error
		tables[s.db.Dialect.Name], err = s.backupTables(t.Context(), s.db.Engine.Reader())
		require.NoError(t, err)
		names, err := createdTables(s.db.Dialect.Name, schemaVersion)
		require.NoError(t, err)
		for name := range names {
			created[name] = true
			require.True(t, leftOutTables[name] != "" || slices.ContainsFunc(
				tables[s.db.Dialect.Name], func(t *backupTable) bool { return t.name == name },
			), "table %s is neither in backups nor in leftOutTables", name)
		}
	}
	require.Len(t, tables["mysql"], len(tables["sqlite"]))
	for i, have := range tables["mysql"] {
		want := tables["sqlite"][i]
		require.Equal(t, want.name, have.name)
		require.ElementsMatch(t, want.columns, have.columns, have.name)
		require.Equal(t, want.key, have.key, have.name)
		for j, column := range have.columns {
			k := slices.Index(want.columns, column)
			require.Equal(t, want.kinds[k] == columnNumber, have.kinds[j] == columnNumber, column)
		}
	}
	for name, why := range leftOutTables {
		require.True(t, created[name], "there is no table %s to leave out", name)
		require.NotEmpty(t, why)
	}
}

func TestUnknownTablesOfBackups(t *testing.T) {
	t.Parallel()
	ours := map[string][]string{"a": {"b"}}
	_, err := tablesOf([]schemaColumn{{Table: "a", Column: "b", Type: "double", Key: 1}}, ours)
	require.ErrorContains(t, err, "type double, which backups do not know")
	_, err = tablesOf([]schemaColumn{{Table: "a", Column: "b", Type: "int"}}, ours)
	require.ErrorContains(t, err, "no primary key")
	tables, err := tablesOf([]schemaColumn{{Table: "other", Column: "b", Type: "double"}}, ours)
	require.NoError(t, err)
	require.Empty(t, tables, "it belongs to somebody else")
}

// TestCreatedTables compares what is read from the text of the migrations with the tables that they
// create. A later migration may add a column.
func TestCreatedTables(t *testing.T) {
	t.Parallel()
	for _, s := range migratedStores(t) {
		created, err := createdTables(s.db.Dialect.Name, schemaVersion)
		require.NoError(t, err)
		var columns []schemaColumn
		require.NoError(t, s.db.SelectAll(
			t.Context(), s.db.Engine.Reader(), &columns, sqldb.Stmt(s.db.Dialect.SchemaColumns),
		))
		read := map[string][]string{}
		for _, c := range columns {
			if !strings.HasPrefix(c.Table, "goose_") {
				read[c.Table] = append(read[c.Table], c.Column)
			}
		}
		for name, columns := range read {
			require.NotEmpty(t, created[name], name)
			require.Equal(t, columns[:len(created[name])], created[name], name)
		}
		require.Len(t, read, len(created))
	}
}
