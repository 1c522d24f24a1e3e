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
	name     string
	state    atomic.Value // wsrep_local_state
	readOnly atomic.Bool
	dark     atomic.Bool // it answers nothing
}

func newGaleraNode(name string) *galeraNode {
	s := &galeraNode{name: name}
	s.state.Store(synced)
	return s
}

func (s *galeraNode) Driver() driver.Driver { return nil }

func (s *galeraNode) Connect(ctx context.Context) (driver.Conn, error) {
	if s.dark.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &galeraConn{server: s}, nil
}

type galeraConn struct {
	settingsConn

	server *galeraNode
}

func (c *galeraConn) QueryContext(
	ctx context.Context, query string, _ []driver.NamedValue,
) (driver.Rows, error) {
	if c.server.dark.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	status := map[string]string{
		"wsrep_on": "ON", "wsrep_provider": "galera", "read_only": "OFF",
		"wsrep_ready": "ON", "wsrep_cluster_status": "Primary",
	}
	if c.server.readOnly.Load() {
		status["read_only"] = "ON"
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

// addSocket adds a connection to those of the node.
func (nd *node) addSocket() {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.conns[&nodeConn{TCPConn: &net.TCPConn{}, node: nd}] = struct{}{}
}

func (nd *node) sockets() int {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return len(nd.conns)
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
		c.list[0].addSocket()
		sockets := c.list[0].sockets

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
			require.True(t, served.IsValid())
			require.NoError(t, served.ResetSession(ctx))
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

// ask returns the server that a statement of a second goes to.
func (c *cluster) ask(t *testing.T) (name string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), connectTime)
	defer cancel()
	err = c.db.QueryRowContext(ctx, "SELECT @@hostname").Scan(&name, new(string))
	return name, err
}

// TestOnlyDonorIsUsed: while no other node serves, statements go to a donor, which commits. The
// transfer begins before or after the others are gone.
func TestOnlyDonorIsUsed(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			defer c.end()
			c.db.SetMaxIdleConns(0) // each statement needs a new connection
			name, err := c.ask(t)
			require.NoError(t, err)
			require.Equal(t, "first", name)
			time.Sleep(time.Millisecond)
			if before {
				c.first.state.Store(donor)
				looks(maxRetired)
				name, err = c.ask(t)
				require.NoError(t, err)
				require.Equal(t, "second", name)
			}
			c.second.dark.Store(true)
			c.first.state.Store(donor)
			looks(maxRetired)
			_, _ = c.ask(t) // its time ends at the second
			looks(maxRetired)
			c.list[0].addSocket()
			for range 2 * maxRetired {
				looks(1)
				name, err = c.ask(t)
				require.NoError(t, err)
				require.Equal(t, "first", name)
			}
			require.Equal(t, 1, c.list[0].sockets())
			c.second.dark.Store(false)
			looks(maxRetired)
			name, err = c.ask(t)
			require.NoError(t, err)
			require.Equal(t, "second", name, "the donor is left for it")
		})
	}
}

// TestNodeThatServesComesBeforeADarkOne: a replica that was promoted gets the next connection. A
// caller that has a second does not spend it on the host that is gone.
func TestNodeThatServesComesBeforeADarkOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.end()
		c.db.SetMaxIdleConns(0)
		c.second.readOnly.Store(true)
		_, err := c.ask(t)
		require.NoError(t, err)
		c.first.dark.Store(true)
		for range 5 {
			_, err := c.ask(t)
			require.Error(t, err)
			looks(1)
		}
		c.second.readOnly.Store(false)
		for _, state := range []string{synced, donor} {
			c.second.state.Store(state)
			looks(2)
			name, err := c.ask(t)
			require.NoError(t, err)
			require.Equal(t, "second", name)
		}
	})
}
