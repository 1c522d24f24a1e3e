package rediswindow_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// startSentinel starts a sentinel that watches a master named m. One sentinel is a quorum here.
func startSentinel(t *testing.T, master *server) (addr string) {
	t.Helper()
	s := ownServer(t)
	settings := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(settings, fmt.Appendf(nil,
		"port %s\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 %s 1\n"+
			"sentinel down-after-milliseconds m 500\nsentinel failover-timeout m 3000\n",
		s.port, master.port), 0o600))
	s.cmd = exec.Command(s.path, settings, "--sentinel")
	require.NoError(t, s.cmd.Start())
	return s.addr
}

// TestSentinelFailover: the window follows the sentinels from a killed master to its replica, which
// has the same entries and generation.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master, replica := ownServer(t), ownServer(t)
	master.start(t)
	replica.start(t, "--replicaof", "127.0.0.1 "+master.port)
	sentinel := startSentinel(t, master)

	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	follower := redis.NewClient(&redis.Options{Addr: replica.addr})
	t.Cleanup(func() { require.NoError(t, follower.Close()) })
	eventually := func(what string, done func(context.Context) bool) {
		t.Helper()
		require.Eventually(
			t,
			func() bool { return done(t.Context()) },
			time.Minute,
			50*time.Millisecond,
			what,
		)
	}
	eventually("the sentinel knows the replica", func(ctx context.Context) bool {
		known, err := client.Replicas(ctx, "m").Result()
		return err == nil && len(known) == 1
	})

	w := newWindow(
		t,
		rediswindow.Options{Addrs: []string{sentinel}, SentinelMaster: "m", Prefix: "p"},
	)
	s := soon()
	require.NoError(t, w.Ping(t.Context()))
	generation, err := w.Open(t.Context(), s)
	require.NoError(t, err)
	before, after := fireIn(s, 2, 1), fireIn(s, 3, 2)
	require.NoError(t, w.Put(t.Context(), []timer.Fire{before}))
	eventually("the replica has the entry", func(ctx context.Context) bool {
		n, err := follower.ZCard(ctx, key("p", s)).Result()
		return err == nil && n == 2
	})

	master.kill(t)
	eventually("the window reaches the new master", func(ctx context.Context) bool {
		return w.Put(ctx, []timer.Fire{after}) == nil
	})
	page := readAll(t, w, s)
	require.Equal(t, generation, page.Generation)
	require.Len(t, page.Fires, 2)
}
