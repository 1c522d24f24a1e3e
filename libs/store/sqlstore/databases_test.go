package sqlstore_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// databases are migrated databases that the tests of a suite use one after the other. To make one
// takes longer than most of these tests. One with rows of another test would not be empty, so each
// is emptied after a test.
type databases struct {
	free chan emptied
}

// emptied is a database of a suite, with the tables of the schema.
type emptied struct {
	dsn    string
	tables []table
}

// table is a table and the rows that the migrations write into it.
type table struct {
	name string
	rows [][]any
}

// newDatabases makes as many databases as tests run at once. They are removed when t ends.
func newDatabases(t *testing.T, o sqlstore.MySQLOptions) *databases {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	require.NoError(t, err)
	d := &databases{free: make(chan emptied, n)}
	for range n {
		o.DSN = testenv.MySQL(t)
		openMySQL(t, o)
		d.free <- emptied{dsn: o.DSN, tables: readTables(t, o.DSN)}
	}
	return d
}

// take returns the DSN of an empty database, which is the test's until it ends. Call it before the
// database's stores are opened, so that they are closed when it is emptied.
func (d *databases) take(t *testing.T) (dsn string) {
	t.Helper()
	db := <-d.free
	t.Cleanup(func() {
		defer func() { d.free <- db }()
		db.empty(t)
	})
	return db.dsn
}

// readTables returns the tables of a database that has just been migrated.
func readTables(t *testing.T, dsn string) (tables []table) {
	t.Helper()
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	var names []string
	require.NoError(t, db.SelectContext(t.Context(), &names, "SHOW TABLES"))
	for _, name := range names {
		tables = append(tables, table{name: name, rows: readRows(t, db, name)})
	}
	return tables
}

// readRows returns all rows of a table.
func readRows(t *testing.T, db *sqlx.DB, name string) (all [][]any) {
	t.Helper()
	//nolint:unqueryvet // whatever columns it has
	rows, err := db.QueryxContext(t.Context(), "SELECT * FROM "+name)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		row, err := rows.SliceScan()
		require.NoError(t, err)
		all = append(all, row)
	}
	require.NoError(t, rows.Err())
	return all
}

// empty gives every table the rows that it had after the migrations. The server may still be
// rolling back what a closed store had begun: the deletion waits for its locks.
func (d *emptied) empty(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it has ended during the cleanup
	db, err := sqlx.Open("mysql", d.dsn)
	require.NoError(t, err)
	defer db.Close()
	var filled []string
	selects := make([]string, len(d.tables))
	for i, tb := range d.tables {
		selects[i] = fmt.Sprintf("(SELECT '%s' FROM %[1]s LIMIT 1)", tb.name)
	}
	require.NoError(t, db.SelectContext(ctx, &filled, strings.Join(selects, " UNION ALL ")))
	tx, err := db.BeginTxx(ctx, nil)
	require.NoError(t, err)
	for _, tb := range d.tables {
		if slices.Contains(filled, tb.name) {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+tb.name)
			require.NoError(t, err)
		}
		for _, row := range tb.rows {
			values := "(?" + strings.Repeat(",?", len(row)-1) + ")"
			_, err := tx.ExecContext(ctx, "INSERT INTO "+tb.name+" VALUES "+values, row...)
			require.NoError(t, err)
		}
	}
	require.NoError(t, tx.Commit())
}
