package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// ownCluster is a cluster whose nodes a test may kill.
type ownCluster struct {
	*testenv.GaleraCluster

	t   *testing.T
	dir string
}

// startCluster starts a cluster for one test. Where the tests have no cluster, it skips the test.
func startCluster(t *testing.T) *ownCluster {
	t.Helper()
	testenv.Galera(t)
	dir, err := os.MkdirTemp("", "carillon-galera-") //nolint:usetesting // see below
	require.NoError(t, err)
	// The nodes run as another user, who cannot enter a directory of the testing package.
	c := &ownCluster{t: t, dir: dir}
	t.Cleanup(func() {
		c.servers("wipe")
		require.NoError(t, os.RemoveAll(dir))
	})
	c.servers("up")
	text, err := os.ReadFile(filepath.Join(dir, "env"))
	require.NoError(t, err)
	value := func(name string) string {
		_, rest, found := strings.Cut(string(text), "CARILLON_TEST_"+name+"='")
		require.True(t, found, name)
		v, _, _ := strings.Cut(rest, "'")
		return v
	}
	c.GaleraCluster = testenv.GaleraAt(t, value("GALERA_DSN"), value("GALERA_ADDRS"))
	return c
}

func (c *ownCluster) servers(command string) {
	c.t.Helper()
	script, err := filepath.Abs("../../../scripts/servers.sh")
	require.NoError(c.t, err)
	out, err := exec.CommandContext(context.Background(), script, command, c.dir, "galera").
		CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

// signal sends a signal to a node, counted from 1.
func (c *ownCluster) signal(node int, s syscall.Signal) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("galera-%d.pid", node)))
	require.NoError(c.t, err)
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(c.t, err)
	require.NoError(c.t, syscall.Kill(pid, s))
}

func (c *ownCluster) port(node int) int {
	c.t.Helper()
	_, port, err := net.SplitHostPort(c.Addrs[node-1])
	require.NoError(c.t, err)
	n, err := strconv.Atoi(port)
	require.NoError(c.t, err)
	return n
}

// writer creates timers until it is stopped, and knows which were acknowledged.
type writer struct {
	stop  context.CancelFunc
	wait  sync.WaitGroup
	count atomic.Int64
	all   []string
}

func startWriter(t *testing.T, s *sqlstore.Store, name string) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{stop: cancel}
	w.wait.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			item := store.NewTimer{App: "app", Name: fmt.Sprint(name, i)}
			_, err := s.Create(ctx, []store.NewTimer{item}, nil)
			if err == nil {
				w.all = append(w.all, item.Name)
				w.count.Add(1)
			}
		}
	})
	return w
}

// moreWrites waits until writes are acknowledged again, and returns how long that took. The first
// one may have been in transit before.
func moreWrites(t *testing.T, writers []*writer) time.Duration {
	t.Helper()
	began := time.Now()
	for _, w := range writers {
		before := w.count.Load()
		require.Eventually(t, func() bool { return w.count.Load() > before+1 },
			time.Minute, 10*time.Millisecond, "no write is acknowledged")
	}
	return time.Since(began)
}

// TestGaleraFailover kills and stops each node in turn while stores write: one through the list of
// nodes, one through a proxy. Every acknowledged write is there afterwards, on every node.
func TestGaleraFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	list := openMySQL(t, sqlstore.MySQLOptions{DSN: c.Of(c.Addrs...)})
	writers := []*writer{
		startWriter(t, list, "list-"),
		startWriter(t, openMySQL(t, sqlstore.MySQLOptions{DSN: c.DSN}), "proxy-"),
	}
	stopAll := func() {
		for _, w := range writers {
			w.stop()
			w.wait.Wait()
		}
	}
	defer stopAll()
	moreWrites(t, writers)
	for node := 1; node <= len(c.Addrs); node++ {
		c.signal(node, syscall.SIGKILL)
		t.Logf("node %d killed: writes again after %v", node, moreWrites(t, writers[:1]))
		moreWrites(t, writers)
		c.servers("up")
		moreWrites(t, writers)

		c.signal(node, syscall.SIGSTOP)
		t.Logf("node %d stopped: writes again after %v", node, moreWrites(t, writers[:1]))
		moreWrites(t, writers)
		c.signal(node, syscall.SIGCONT)
		c.servers("up")
		moreWrites(t, writers)
	}
	stopAll()
	for _, addr := range c.Addrs {
		s := openMySQL(t, sqlstore.MySQLOptions{DSN: c.Of(addr)})
		lost := 0
		for _, w := range writers {
			for _, name := range w.all {
				if _, err := s.TimerByName(t.Context(), "app", name); err != nil {
					t.Errorf("%s: %s: %v", addr, name, err)
					lost++
				}
			}
		}
		require.Zero(t, lost)
	}
	t.Logf("%d and %d writes acknowledged, 0 lost", len(writers[0].all), len(writers[1].all))
}

// TestGaleraRefusesNodes makes the preferred node unusable without ending its connections: read-only,
// then without all data. The store leaves it, and returns when it serves again.
func TestGaleraRefusesNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := openMySQL(t, sqlstore.MySQLOptions{DSN: c.Of(c.Addrs...)})
	on := func(node int) {
		t.Helper()
		require.Eventually(t, func() bool {
			port, err := s.Port(t.Context())
			return err == nil && port == c.port(node)
		}, 2*time.Minute, 50*time.Millisecond)
	}
	on(1)
	db, err := sql.Open("mysql", c.Of(c.Addrs[0]))
	require.NoError(t, err)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for _, setting := range []string{"read_only", "wsrep_desync"} {
		_, err := conn.ExecContext(t.Context(), "SET GLOBAL "+setting+"=ON")
		require.NoError(t, err)
		on(2)
		if setting == "wsrep_desync" {
			alone, err := sqlstore.OpenMySQL(
				t.Context(),
				sqlstore.MySQLOptions{DSN: c.Of(c.Addrs[0])},
			)
			require.NoError(t, err)
			require.ErrorContains(t, alone.Ping(t.Context()), "wsrep_local_state is 2")
			require.NoError(t, alone.Close())
		}
		_, err = conn.ExecContext(t.Context(), "SET GLOBAL "+setting+"=OFF")
		require.NoError(t, err)
		on(1)
	}
}
