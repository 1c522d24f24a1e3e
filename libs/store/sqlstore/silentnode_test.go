package sqlstore_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// link forwards connections to a server, until it falls silent as a stopped server does: it takes
// connections and data, and forwards nothing.
type link struct {
	listener net.Listener
	server   string
	opened   atomic.Int64
	silent   atomic.Bool
	wait     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newLink(t *testing.T, server string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &link{listener: listener, server: server}
	l.wait.Go(l.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		l.wait.Wait()
	})
	return l
}

func (l *link) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		l.mu.Unlock()
		l.opened.Add(1)
		l.wait.Go(func() { l.forward(client, server) })
		l.wait.Go(func() { l.forward(server, client) })
	}
}

func (l *link) forward(from, to net.Conn) {
	_, _ = io.Copy(linkWriter{l, to}, from)
	if !l.silent.Load() {
		_ = to.Close()
	}
}

type linkWriter struct {
	link *link
	to   net.Conn
}

func (w linkWriter) Write(b []byte) (int, error) {
	if w.link.silent.Load() {
		return len(b), nil
	}
	return w.to.Write(b)
}

// TestMySQLLeavesSilentNode stops a node in the middle of a transaction, without the end of any
// connection. The transaction is repeated on the next node.
func TestMySQLLeavesSilentNode(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	first, second := newLink(t, cfg.Addr), newLink(t, cfg.Addr)
	addrs := first.listener.Addr().String() + "," + second.listener.Addr().String()
	s := openMySQL(
		t,
		sqlstore.MySQLOptions{DSN: strings.Replace(dsn, cfg.Addr, addrs, 1)},
	)
	create := func(name string) {
		t.Helper()
		made, err := s.Create(t.Context(), []store.NewTimer{{App: "app", Name: name}}, nil)
		require.NoError(t, err)
		require.False(t, made[0].Existing)
	}
	create("before")
	require.Zero(t, second.opened.Load(), "the first node is preferred")
	s.OnStatement(func(text string) {
		if strings.HasPrefix(text, "INSERT INTO timers") {
			first.silent.Store(true)
		}
	})
	create("meanwhile")
	require.NotZero(t, second.opened.Load())
}
