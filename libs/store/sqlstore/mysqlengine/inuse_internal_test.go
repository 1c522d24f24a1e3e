package mysqlengine

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// TestChangeOfNodeIsLoggedOnce opens many connections to each node in turn, at once.
func TestChangeOfNodeIsLoggedOnce(t *testing.T) {
	t.Parallel()
	list := []*node{{addr: "a:1"}, {addr: "b:2"}, {addr: "c:3"}}
	var out bytes.Buffer
	u := &inUse{log: zerolog.New(&out)}
	to := func(i int, late bool) {
		t.Helper()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { u.use(list, i, late) })
		}
		all.Wait()
	}
	lines := func() (lines []map[string]string) {
		t.Helper()
		for d := json.NewDecoder(&out); ; {
			var line map[string]string
			err := d.Decode(&line)
			if errors.Is(err, io.EOF) {
				return lines
			}
			require.NoError(t, err)
			lines = append(lines, line)
		}
	}
	to(0, false)
	require.Empty(t, lines(), "the process starts with the preferred node")
	require.Equal(t, &Node{Addr: "a:1", Preferred: "a:1"}, u.node(list))

	list[0].setDown(errors.New("connection refused"))
	to(1, false)
	to(0, true) // was opened before the node was left
	require.Equal(t, []map[string]string{{
		"level": "warn", "message": "another MySQL node is used",
		"left": "a:1", "node": "b:2", "reason": "connection refused",
	}}, lines())
	require.Equal(
		t,
		&Node{Addr: "b:2", Preferred: "a:1", Reason: "connection refused"},
		u.node(list),
	)

	list[1].drop(errors.New("no answer"))
	to(2, false)
	to(1, false)
	require.Equal(t, []map[string]string{{
		"level": "warn", "message": "another MySQL node is used",
		"left": "b:2", "node": "c:3", "reason": "no answer",
	}, {
		"level": "warn", "message": "another MySQL node is used",
		"left": "c:3", "node": "b:2", "reason": "a node before it in the list serves again",
	}}, lines())

	to(0, false)
	require.Equal(t, []map[string]string{{
		"level": "info", "message": "the preferred MySQL node is used again",
		"left": "b:2", "node": "a:1", "reason": "the preferred node serves again",
	}}, lines())
	require.Nil(t, u.node(list[:1]), "one address: there is nothing to tell")
}

// lostConn loses its connection in each statement.
type lostConn struct{ mysqlConn }

func (lostConn) ExecContext(
	context.Context, string, []driver.NamedValue,
) (driver.Result, error) {
	return nil, mysql.ErrInvalidConn
}

// TestLostConnectionNamesNode where there are several, and stays the error that the store repeats.
func TestLostConnectionNamesNode(t *testing.T) {
	t.Parallel()
	for want, nd := range map[string]*node{
		"invalid connection":           nil,
		"node a:1: invalid connection": {addr: "a:1"},
	} {
		c := &servedConn{mysqlConn: lostConn{}, node: nd}
		tx := servedTx{c, t.Context()}
		for _, err := range []error{c.check(mysql.ErrInvalidConn), tx.Commit()} {
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, mysql.ErrInvalidConn)
		}
		require.NoError(t, c.check(nil))
	}
}
