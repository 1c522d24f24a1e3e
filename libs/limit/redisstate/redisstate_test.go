package redisstate_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/limittest"
	"github.com/carillon-timer/carillon/libs/limit/redisstate"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newState(t *testing.T, o redisstate.Options) *redisstate.SharedState {
	t.Helper()
	l, err := redisstate.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestContract(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	limittest.Run(t, func(t *testing.T) limit.SharedState {
		return newState(
			t,
			redisstate.Options{Addrs: addrs, Prefix: prefix + t.Name(), Timeout: 5 * time.Second},
		)
	})
}

func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.RedisCluster(t)
	limittest.Run(t, func(t *testing.T) limit.SharedState {
		return newState(
			t,
			redisstate.Options{Addrs: addrs, Prefix: prefix + t.Name(), Timeout: 5 * time.Second},
		)
	})
}

func TestContractWithSentinel(t *testing.T) {
	t.Parallel()
	addrs, prefix, master := testenv.RedisSentinel(t)
	limittest.Run(t, func(t *testing.T) limit.SharedState {
		return newState(t, redisstate.Options{
			Addrs:          addrs,
			SentinelMaster: master,
			Prefix:         prefix + t.Name(),
			Timeout:        5 * time.Second,
		})
	})
}

func TestServerRestartLosesTheScript(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	l := newState(t, redisstate.Options{Addrs: addrs, Prefix: prefix, Timeout: 5 * time.Second})
	client := redis.NewClient(&redis.Options{Addr: addrs[0]})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	w := []limit.Demand{
		{App: "a", Settings: limit.Settings{Rate: 100, Burst: 10}, Tokens: 5},
		{App: "b", Settings: limit.Settings{Concurrent: 3}, Slots: 2},
	}
	for range 3 {
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		require.NoError(t, client.Unlink(t.Context(), prefix+":{l:a}", prefix+":{l:b}").Err())
		grants, err := l.Sync(t.Context(), "e", w)
		require.NoError(t, err)
		require.Equal(t, 5, grants[0].Tokens)
		require.Equal(t, 2, grants[1].Slots)
		left, err := client.PTTL(t.Context(), prefix+":{l:a}").Result()
		require.NoError(t, err)
		require.Positive(t, left, "a key without expiry")
	}
}

// TestServerWithAClockBehind fails over to a server whose clock is an hour behind, while an executor
// dies. What the dead one had is free again as soon as with one clock.
func TestServerWithAClockBehind(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	l := newState(t, redisstate.Options{Addrs: addrs, Prefix: prefix, Timeout: 5 * time.Second})
	client := redis.NewClient(&redis.Options{Addr: addrs[0]})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	sync := func(executor string, waiting [limit.Priorities]int) limit.Grant {
		t.Helper()
		grants, err := l.Sync(t.Context(), executor, []limit.Demand{{
			App: "a", Settings: limit.Settings{Rate: 1000, Burst: 10, Concurrent: 3},
			Waiting: waiting, Starts: 1, Slots: 3,
		}})
		require.NoError(t, err)
		return grants[0]
	}
	require.Equal(t, 3, sync("dead", [limit.Priorities]int{5}).Slots)

	key := prefix + ":{l:a}"
	all, err := client.HGetAll(t.Context(), key).Result()
	require.NoError(t, err)
	for _, field := range []string{"e:dead", "w:dead"} {
		require.Contains(t, all, field)
		numbers := strings.Fields(all[field])
		last := len(numbers) - 1
		endUS, err := strconv.ParseInt(numbers[last], 10, 64)
		require.NoError(t, err)
		numbers[last] = strconv.FormatInt(endUS+time.Hour.Microseconds(), 10)
		require.NoError(t, client.HSet(t.Context(), key, field, strings.Join(numbers, " ")).Err())
	}

	require.Zero(t, sync("alive", [limit.Priorities]int{0, 5}).Slots, "they may be in use")
	require.Eventually(t, func() bool {
		g := sync("alive", [limit.Priorities]int{0, 5})
		return g.Slots == 3 && len(g.Order) == 1
	}, time.Minute, 20*time.Millisecond)
}

func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	l := newState(t, redisstate.Options{Addrs: []string{gone.Addr().String()}})
	_, err = l.Sync(
		t.Context(),
		"e",
		[]limit.Demand{{App: "a", Settings: limit.Settings{Rate: 1, Burst: 1}, Tokens: 1}},
	)
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(l.Ping(t.Context())))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := redisstate.New(redisstate.Options{})
	require.ErrorContains(t, err, "no address")
	_, err = redisstate.New(redisstate.Options{Addrs: []string{"a:1"}, Prefix: "{a}"})
	require.ErrorContains(t, err, "braces")
}
