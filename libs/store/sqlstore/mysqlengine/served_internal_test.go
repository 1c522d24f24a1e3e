package mysqlengine

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// failingConn fails every statement with an error of the server.
type failingConn struct {
	mysqlConn

	number uint16
}

func (c failingConn) ExecContext(
	context.Context, string, []driver.NamedValue,
) (driver.Result, error) {
	return nil, &mysql.MySQLError{Number: c.number}
}

func (c failingConn) IsValid() bool                      { return true }
func (c failingConn) ResetSession(context.Context) error { return nil }

// TestConnectionLeavesNodeOutsideOfCluster: such a node refuses all statements, so each may be
// repeated on another connection. So does one that has ended the connection.
func TestConnectionLeavesNodeOutsideOfCluster(t *testing.T) {
	t.Parallel()
	for number, leaves := range map[uint16]bool{1047: true, 4031: true, 1213: false, 1062: false} {
		c := &servedConn{mysqlConn: failingConn{number: number}}
		_, err := c.ExecContext(t.Context(), "SELECT 1", nil)
		require.Equal(
			t,
			leaves,
			errors.Is(err, driver.ErrBadConn),
			number,
		)
		require.Equal(t, !leaves, c.IsValid(), number)

		c = &servedConn{mysqlConn: failingConn{number: number}}
		err = servedTx{c, t.Context()}.Commit()
		require.Equal(t, leaves, errors.Is(err, driver.ErrBadConn), number)
		require.Equal(t, !leaves, c.IsValid(), number)
	}
}

// TestConnectionIsNotUsedWhileItsServerMayCloseIt: the pool keeps idle connections for a second
// longer than it is told to.
func TestConnectionIsNotUsedWhileItsServerMayCloseIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &servedConn{mysqlConn: failingConn{}}
		for range 3 {
			require.True(t, c.IsValid())
			time.Sleep(maxIdleTime)
			require.NoError(t, c.ResetSession(t.Context()))
			time.Sleep(maxIdleTime) // in use
		}
		require.True(t, c.IsValid())
		time.Sleep(maxIdleTime + time.Millisecond)
		require.ErrorIs(t, c.ResetSession(t.Context()), driver.ErrBadConn)
	})
}

// settingsConn answers SHOW VARIABLES, and keeps what is set.
type settingsConn struct {
	mysqlConn

	rows [][2]string // left to read
	set  []string
}

func (c *settingsConn) QueryContext(
	context.Context, string, []driver.NamedValue,
) (driver.Rows, error) {
	return c, nil
}

func (c *settingsConn) ExecContext(
	_ context.Context, statement string, _ []driver.NamedValue,
) (driver.Result, error) {
	c.set = append(c.set, statement)
	return driver.ResultNoRows, nil
}

func (c *settingsConn) Columns() []string { return []string{"Variable_name", "Value"} }
func (c *settingsConn) Close() error      { return nil }

func (c *settingsConn) Next(row []driver.Value) error {
	if len(c.rows) == 0 {
		return io.EOF
	}
	row[0], row[1] = c.rows[0][0], c.rows[0][1]
	c.rows = c.rows[1:]
	return nil
}

// TestSettingsOfConnections checks that snapshot isolation and the conversion of IN lists are switched
// off where the server has them, and only there: others do not know them.
func TestSettingsOfConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rows [][2]string
		set  []string
	}{
		{[][2]string{{"read_only", "OFF"}}, []string{setIsolation}},
		{[][2]string{{"innodb_snapshot_isolation", "OFF"}}, []string{setIsolation}},
		{[][2]string{{"innodb_snapshot_isolation", "ON"}}, []string{setIsolation, setNoSnapshots}},
		{[][2]string{{"in_predicate_conversion_threshold", "0"}}, []string{setIsolation}},
		{
			[][2]string{{"in_predicate_conversion_threshold", "1000"}},
			[]string{setIsolation, setNoConversion},
		},
	} {
		c := &settingsConn{rows: tt.rows}
		_, err := prepare(t.Context(), c, engine.Capabilities{}, false)
		require.NoError(t, err)
		require.Equal(t, tt.set, c.set)
	}
}

func TestNodeMustBeSynced(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"wsrep_ready": "ON", "wsrep_local_state": "4", "wsrep_cluster_status": "Primary",
	}
	require.NoError(t, checkSynced(good))
	for name, value := range map[string]string{
		"wsrep_ready": "OFF", "wsrep_local_state": "2", "wsrep_cluster_status": "non-Primary",
	} {
		status := map[string]string{name: value}
		for k, v := range good {
			if k != name {
				status[k] = v
			}
		}
		require.ErrorIs(t, checkSynced(status), ErrNotServing)
	}
}
