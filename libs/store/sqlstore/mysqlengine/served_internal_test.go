package mysqlengine

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
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

func (c failingConn) IsValid() bool { return true }

// TestConnectionLeavesNodeOutsideOfCluster: such a node refuses all statements, so each may be
// repeated on another connection.
func TestConnectionLeavesNodeOutsideOfCluster(t *testing.T) {
	t.Parallel()
	for number, leaves := range map[uint16]bool{1047: true, 1213: false, 1062: false} {
		c := &servedConn{mysqlConn: failingConn{number: number}}
		_, err := c.ExecContext(t.Context(), "SELECT 1", nil)
		require.Equal(
			t,
			leaves,
			errors.Is(err, driver.ErrBadConn),
			number,
		)
		require.Equal(t, !leaves, c.IsValid(), number)
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
