package sqlstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// watched is what a link does when it forwards a text.
type watched struct {
	text []byte
	do   func()
}

// The statements, and not the isolation level.
var (
	begin  = []byte("\x03START TRANSACTION")
	commit = []byte("\x03COMMIT")
)

// link forwards connections to a server, until it falls silent as a stopped server does: it takes
// connections and data, and forwards nothing.
type link struct {
	listener net.Listener
	server   string
	opened   atomic.Int64
	silent   atomic.Bool
	watched  atomic.Pointer[watched]
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
		l.end()
		l.wait.Wait()
	})
	return l
}

// end closes all connections.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
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
	if seen := w.link.watched.Load(); seen != nil && bytes.Contains(b, seen.text) {
		seen.do()
	}
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

// openThroughLink opens a store whose server is behind a link. limit is that of calls; 0: the default.
func openThroughLink(t *testing.T, limit time.Duration) (*sqlstore.Store, *link) {
	t.Helper()
	dsn := testenv.MySQL(t)
	openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}) // makes the tables
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	l := newLink(t, cfg.Addr)
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{
		DSN:     strings.Replace(dsn, cfg.Addr, l.listener.Addr().String(), 1),
		Timeout: limit,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Ping(t.Context()))
	return s, l
}

// TestMySQLCommitHasADeadline stops a server at a commit. A call must not last until the limit of
// reads, which is far longer than its own. Nobody knows whether the server committed, so the commit is
// not repeated.
func TestMySQLCommitHasADeadline(t *testing.T) {
	t.Parallel()
	s, l := openThroughLink(t, 5*time.Second)
	l.watched.Store(&watched{commit, func() { l.silent.Store(true) }})
	_, err := s.Create(t.Context(), []store.NewTimer{{App: "app", Name: "n"}}, nil)
	require.True(t, l.silent.Load(), "the server got the commit")
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestMySQLCommitOutlivesItsCaller cancels a call at its commit, whose result is known then.
func TestMySQLCommitOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	s, l := openThroughLink(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	l.watched.Store(&watched{commit, cancel})
	_, err := s.Create(ctx, []store.NewTimer{{App: "app", Name: "n"}}, nil)
	require.NoError(t, err)
	require.Error(t, ctx.Err())
}

// TestMySQLBeginsAgain ends a connection at the beginning of a transaction, as a server does that
// closes an idle connection at that instant. Nothing has been done, so the transaction begins again.
func TestMySQLBeginsAgain(t *testing.T) {
	t.Parallel()
	s, l := openThroughLink(t, 0)
	var ended atomic.Int64
	l.watched.Store(&watched{begin, func() {
		l.watched.Store(nil)
		ended.Add(1)
		l.end()
	}})
	made, err := s.Create(t.Context(), []store.NewTimer{{App: "app", Name: "n"}}, nil)
	require.NoError(t, err)
	require.False(t, made[0].Existing)
	require.EqualValues(t, 1, ended.Load())
}

// lines are log lines, written by several goroutines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) with(phrase string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, phrase) {
			found = append(found, line)
		}
	}
	return found
}

// TestMySQLNamesNodes: a change of the node is logged once, with both addresses and the reason, and
// so is the return.
func TestMySQLNamesNodes(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	first, second := newLink(t, cfg.Addr), newLink(t, cfg.Addr)
	preferred, other := first.listener.Addr().String(), second.listener.Addr().String()
	var log lines
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{
		DSN:    strings.Replace(dsn, cfg.Addr, preferred+","+other, 1),
		Logger: zerolog.New(&log),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	use := func() {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _, _ = s.Port(t.Context()) }) // a connection may be lost
		}
		all.Wait()
	}
	use()
	require.Empty(t, log.with("MySQL node"))
	require.Equal(t, &mysqlengine.Node{Addr: preferred, Preferred: preferred}, s.Node())

	first.silent.Store(true)
	require.Eventually(t, func() bool {
		use()
		return s.Node().Addr == other
	}, time.Minute, 10*time.Millisecond)
	use()
	left := log.with(logging.NodeChanged)
	require.Len(t, left, 1)
	require.Contains(t, left[0], `"left":"`+preferred+`","node":"`+other+`","reason":"no `)
	require.NotEmpty(t, s.Node().Reason)

	first.silent.Store(false)
	// Idle connections end after 1.5 s, and the next one is to the preferred node.
	require.Eventually(t, func() bool {
		use()
		return s.Node().Addr == preferred
	}, time.Minute, 2*time.Second)
	require.Len(t, log.with(logging.NodePreferred), 1)
	require.Len(t, log.with("MySQL node"), 2)
}
