package mysqlengine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// galeraNode is a server whose state a test sets.
type galeraNode struct {
	name  string
	state atomic.Value // wsrep_local_state
}

func newGaleraNode(name string) *galeraNode {
	s := &galeraNode{name: name}
	s.state.Store(synced)
	return s
}

func (s *galeraNode) Driver() driver.Driver { return nil }

func (s *galeraNode) Connect(context.Context) (driver.Conn, error) {
	return &galeraConn{server: s}, nil
}

type galeraConn struct {
	settingsConn

	server *galeraNode
}

func (c *galeraConn) QueryContext(
	_ context.Context, query string, _ []driver.NamedValue,
) (driver.Rows, error) {
	status := map[string]string{
		"wsrep_on": "ON", "wsrep_provider": "galera", "read_only": "OFF",
		"wsrep_ready": "ON", "wsrep_cluster_status": "Primary",
	}
	status["wsrep_local_state"], _ = c.server.state.Load().(string)
	if query == "SELECT @@hostname" {
		status = map[string]string{c.server.name: ""}
	}
	rows := &settingsConn{}
	for k, v := range status {
		rows.rows = append(rows.rows, [2]string{k, v})
	}
	return rows, nil
}

func (c *galeraConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c, nil }
func (c *galeraConn) CheckNamedValue(*driver.NamedValue) error                     { return nil }
func (c *galeraConn) ResetSession(context.Context) error                           { return nil }
func (c *galeraConn) IsValid() bool                                                { return true }
func (c *galeraConn) Commit() error                                                { return nil }
func (c *galeraConn) Rollback() error                                              { return nil }

// nodeOf returns the server that a statement goes to.
func nodeOf(ctx context.Context, t *testing.T, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (name string) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(ctx, "SELECT @@hostname").Scan(&name, new(string)))
	return name
}

// cluster is a list of two nodes, with a pool.
type cluster struct {
	*nodes

	first, second *galeraNode
	db            *sql.DB
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{&nodes{}, newGaleraNode("first"), newGaleraNode("second"), nil}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	for _, s := range []*galeraNode{c.first, c.second} {
		c.list = append(c.list, &node{
			addr: s.name, connector: s, probe: s, conns: map[*nodeConn]struct{}{},
		})
	}
	c.db = sql.OpenDB(c)
	return c
}

func (c *cluster) end() {
	_ = c.db.Close()
	c.close()
}

// looks waits until the nodes were examined so often.
func looks(n int) { time.Sleep(time.Duration(n) * watchTime) }

// TestDonorEndsItsTransactions: a node that stays a donor gets no new statement, also none on the
// connections that it has. The transaction that it runs goes on, for as long as it may take to leave
// a node.
func TestDonorEndsItsTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, c := t.Context(), newCluster(t)
		defer c.end()
		donor := c.list[0]
		donor.conns[&nodeConn{TCPConn: &net.TCPConn{}, node: donor}] = struct{}{}
		sockets := func() int {
			donor.mu.Lock()
			defer donor.mu.Unlock()
			return len(donor.conns)
		}

		tx, err := c.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "first", nodeOf(ctx, t, c.db), "and a connection of the pool is idle")
		time.Sleep(time.Millisecond)
		c.first.state.Store("2")
		looks(maxTransfers)
		require.Equal(t, "first", nodeOf(ctx, t, c.db), "a short transfer changes nothing")
		looks(1)
		require.Equal(t, "second", nodeOf(ctx, t, c.db))
		require.Equal(t, "first", nodeOf(ctx, t, tx))
		require.NoError(t, tx.Commit())
		require.Equal(t, "second", nodeOf(ctx, t, c.db))

		looks(maxRetired - maxTransfers - 1)
		require.Equal(t, 1, sockets())
		looks(1)
		require.Zero(t, sockets(), "its time is up")
	})
}

// TestNodeIsPreferredAgainWhenItServesLong: a node that was stopped and goes on calls itself in sync,
// until it knows better.
func TestNodeIsPreferredAgainWhenItServesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, c := t.Context(), newCluster(t)
		defer c.end()
		newConn := func() (addr string) {
			t.Helper()
			conn, err := c.Connect(ctx)
			require.NoError(t, err)
			served, _ := conn.(*servedConn)
			require.NoError(t, served.ResetSession(ctx))
			require.True(t, served.IsValid())
			return served.node.addr
		}
		require.Equal(t, "first", newConn())
		time.Sleep(time.Millisecond)
		const joining = "1"
		c.first.state.Store(joining)
		looks(maxRetired + 1)
		require.Equal(t, "second", newConn())
		c.first.state.Store(synced)
		looks(minServing - 1)
		require.Equal(t, "second", newConn())
		c.first.state.Store(joining)
		looks(1)
		c.first.state.Store(synced)
		looks(minServing - 1)
		require.Equal(t, "second", newConn())
		looks(1)
		require.Equal(t, "first", newConn())

		c.first.state.Store(joining)
		looks(maxRetired + 1)
		c.second.state.Store(joining)
		looks(maxRetired + 1)
		_, err := c.Connect(ctx)
		require.ErrorIs(t, err, ErrNotServing)
		c.first.state.Store(synced)
		require.Equal(t, "first", newConn(), "no other serves")
	})
}
