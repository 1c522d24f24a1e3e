package rediswindow_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// TestPingRefusesSentinel: a sentinel answers PING like a server.
func TestPingRefusesSentinel(t *testing.T) {
	t.Parallel()
	master := ownServer(t)
	master.start(t)
	w := newWindow(
		t,
		rediswindow.Options{Addrs: []string{startSentinel(t, master)}, Prefix: "p"},
	)
	require.Eventually(t, func() bool { // it is starting
		err := w.Ping(t.Context())
		require.Error(t, err, "it has no window")
		return errors.Is(err, rediswindow.ErrSentinel)
	}, time.Minute, 10*time.Millisecond)
}

// TestPingRefusesReplica: a replica answers PING, and refuses every write. A master may become one at
// any time.
func TestPingRefusesReplica(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	s.start(t)
	w := newWindow(t, rediswindow.Options{Addrs: []string{s.addr}, Prefix: "p"})
	serves := func() bool { return w.Ping(t.Context()) == nil }
	require.Eventually(t, serves, time.Minute, 10*time.Millisecond)
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	require.ErrorContains(t, w.Put(t.Context(), []timer.Fire{fireIn(soon(), 1, 1)}), "READONLY")
	require.ErrorIs(t, w.Ping(t.Context()), rediswindow.ErrReplica)
	require.NoError(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	require.Eventually(t, serves, time.Minute, 10*time.Millisecond)
}

// TestPingSaysWhyNoNodeAnswers: the library repeats until the time is up, and reports only that.
func TestPingSaysWhyNoNodeAnswers(t *testing.T) {
	t.Parallel()
	w := newWindow(
		t,
		rediswindow.Options{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, Prefix: "p"},
	)
	require.ErrorIs(t, w.Ping(t.Context()), syscall.ECONNREFUSED)
}

// TestPingRefusesANodeOfACluster names one node of a cluster, which takes a third of the keys.
func TestPingRefusesANodeOfACluster(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.RedisCluster(t)
	w := newWindow(t, rediswindow.Options{Addrs: addrs[:1], Prefix: prefix})
	require.ErrorIs(t, w.Ping(t.Context()), rediswindow.ErrCluster)
	require.NoError(
		t,
		newWindow(t, rediswindow.Options{Addrs: addrs, Prefix: prefix}).Ping(t.Context()),
	)
}
