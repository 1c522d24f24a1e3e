package sqliteengine

import (
	"context"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// counted counts what a connection prepares.
type counted struct {
	driverConn

	prepared []string
}

func (c *counted) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.prepared = append(c.prepared, text)
	return c.driverConn.PrepareContext(ctx, text) //nolint:wrapcheck // a test's
}

func openCounted(t *testing.T, limit int) (*connection, *counted) {
	t.Helper()
	connector, err := sqlite.NewConnector("file::memory:")
	require.NoError(t, err)
	opened, err := connector.Connect(t.Context())
	require.NoError(t, err)
	inner := &counted{driverConn: opened.(driverConn)}
	c, err := keepStatements(inner, limit)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.ExecContext(t.Context(), "CREATE TABLE n (n INTEGER)", nil)
	require.NoError(t, err)
	for n := range int64(3) {
		_, err = c.ExecContext(t.Context(), "INSERT INTO n VALUES (?)", args(n))
		require.NoError(t, err)
	}
	require.Equal(
		t,
		[]string{"CREATE TABLE n (n INTEGER)", "INSERT INTO n VALUES (?)"},
		inner.prepared,
	)
	inner.prepared = nil
	return c, inner
}

func args(values ...int64) []driver.NamedValue {
	out := make([]driver.NamedValue, len(values))
	for i, v := range values {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}

const above = "SELECT n FROM n WHERE n>=? ORDER BY n"

func next(t *testing.T, r driver.Rows) int64 {
	t.Helper()
	row := make([]driver.Value, 1)
	require.NoError(t, r.Next(row))
	n, ok := row[0].(int64)
	require.True(t, ok)
	return n
}

// TestRowsOfOneTextAtOnce checks that another query of the same text does not touch the rows of the
// first.
func TestRowsOfOneTextAtOnce(t *testing.T) {
	t.Parallel()
	c, inner := openCounted(t, 10)
	first, err := c.QueryContext(t.Context(), above, args(0))
	require.NoError(t, err)
	require.Zero(t, next(t, first))
	second, err := c.QueryContext(t.Context(), above, args(2))
	require.NoError(t, err)
	require.Equal(t, int64(2), next(t, second))
	require.Equal(t, int64(1), next(t, first))
	require.NoError(t, second.Close())
	require.Equal(t, int64(2), next(t, first))
	require.NoError(t, first.Close())
	third, err := c.QueryContext(t.Context(), above, args(1))
	require.NoError(t, err)
	require.Equal(t, int64(1), next(t, third))
	require.NoError(t, third.Close())
	require.Equal(t, []string{above}, inner.prepared, "kept")
}

// TestDroppedWhileItsRowsAreOpen checks that rows outlive their place among the kept statements.
func TestDroppedWhileItsRowsAreOpen(t *testing.T) {
	t.Parallel()
	c, inner := openCounted(t, 1)
	r, err := c.QueryContext(t.Context(), above, args(0))
	require.NoError(t, err)
	require.Zero(t, next(t, r))
	for i := range 3 {
		text := fmt.Sprintf("DELETE FROM n WHERE n=%d", 100+i)
		_, err := c.ExecContext(t.Context(), text, nil)
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), next(t, r))
	require.NoError(t, r.Close())
	r, err = c.QueryContext(t.Context(), above, args(2))
	require.NoError(t, err)
	require.Equal(t, int64(2), next(t, r))
	require.NoError(t, r.Close())
	require.Equal(t, 1, c.kept.Len())
	require.Len(t, inner.prepared, 5)
}

// TestOneStatementIsNotKept checks statements that do not come again.
func TestOneStatementIsNotKept(t *testing.T) {
	t.Parallel()
	c, inner := openCounted(t, 10)
	r, err := c.QueryContext(engine.Once(t.Context()), above, args(1))
	require.NoError(t, err)
	require.Equal(t, int64(1), next(t, r))
	require.NoError(t, r.Close())
	_, err = c.ExecContext(engine.Once(t.Context()), "DELETE FROM n WHERE n=?", args(1))
	require.NoError(t, err)
	require.Empty(t, inner.prepared)
}

// TestKeptStatementsSeeNewColumns checks that a statement that was prepared before a change of the
// schema reads the table as it is.
func TestKeptStatementsSeeNewColumns(t *testing.T) {
	t.Parallel()
	c, inner := openCounted(t, 10)
	const all = "SELECT * FROM n" //nolint:unqueryvet // the new column, too
	for _, columns := range []int{1, 2} {
		r, err := c.QueryContext(t.Context(), all, nil)
		require.NoError(t, err)
		require.Len(t, r.Columns(), columns)
		require.NoError(t, r.Close())
		if columns == 1 {
			_, err = c.ExecContext(t.Context(), "ALTER TABLE n ADD m INTEGER", nil)
			require.NoError(t, err)
		}
	}
	require.Len(t, inner.prepared, 2)
}
