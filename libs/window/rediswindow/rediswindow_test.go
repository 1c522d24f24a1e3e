package rediswindow_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
	"github.com/carillon-timer/carillon/libs/window/windowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	windowtest.Run(
		t,
		func(t *testing.T) windowtest.Instance {
			return part(t, rediswindow.Options{Addrs: addrs, Prefix: prefix + t.Name()})
		},
	)
}

func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.RedisCluster(t)
	windowtest.Run(
		t,
		func(t *testing.T) windowtest.Instance {
			return part(t, rediswindow.Options{Addrs: addrs, Prefix: prefix + t.Name()})
		},
	)
}

func TestContractWithSentinel(t *testing.T) {
	t.Parallel()
	addrs, prefix, master := testenv.RedisSentinel(t)
	windowtest.Run(
		t,
		func(t *testing.T) windowtest.Instance {
			return part(
				t,
				rediswindow.Options{
					Addrs:          addrs,
					SentinelMaster: master,
					Prefix:         prefix + t.Name(),
				},
			)
		},
	)
}

func newWindow(t *testing.T, o rediswindow.Options) *rediswindow.Window {
	t.Helper()
	w, err := rediswindow.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// part creates a window with its own keys. Flush and the end of the test remove them.
func part(t *testing.T, o rediswindow.Options) windowtest.Instance {
	t.Helper()
	prefix := o.Prefix
	client := redis.NewUniversalClient(
		&redis.UniversalOptions{Addrs: o.Addrs, MasterName: o.SentinelMaster},
	)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	wipe := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, prefix+":*").Result()
		for _, k := range keys {
			if err == nil {
				err = c.Del(ctx, k).Err()
			}
		}
		return err
	}
	wipeAll := func(ctx context.Context) error {
		if c, ok := client.(*redis.ClusterClient); ok {
			return c.ForEachMaster(ctx, wipe)
		}
		return wipe(ctx, client.(*redis.Client))
	}
	t.Cleanup(func() { require.NoError(t, wipeAll(context.Background())) })
	return windowtest.Instance{
		Window: newWindow(t, o),
		Flush:  func(t *testing.T) { t.Helper(); require.NoError(t, wipeAll(t.Context())) },
		Remaining: func(t *testing.T, s window.Slice) time.Duration {
			t.Helper()
			left, err := client.PTTL(t.Context(), key(prefix, s)).Result()
			require.NoError(t, err)
			require.NotEqual(t, time.Duration(-1), left, "a key without expiry")
			return left
		},
	}
}

func key(prefix string, s window.Slice) string {
	return prefix + ":{w:" + strconv.FormatInt(
		s.Minute,
		10,
	) + ":" + strconv.Itoa(
		int(s.Bucket),
	) + "}"
}

func soon() window.Slice { return window.Slice{Minute: timer.MinuteOf(time.Now().UnixMilli()) + 5} }

func fireIn(s window.Slice, ms int64, id timer.ID) timer.Fire {
	run := s.Minute*timer.MinuteMS + ms
	return timer.Fire{
		FireID:  timer.FireID{Timer: id, DueMS: run},
		RunAtMS: run,
		Bucket:  s.Bucket,
		Version: 1,
	}
}

func readAll(t *testing.T, w window.Window, s window.Slice) window.Page {
	t.Helper()
	p, err := w.Range(t.Context(), s, 0, 1<<60, 1<<30)
	require.NoError(t, err)
	return p
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := rediswindow.New(rediswindow.Options{})
	require.ErrorContains(t, err, "no address")
	_, err = rediswindow.New(rediswindow.Options{Addrs: []string{"a:1"}, Prefix: "{a}"})
	require.ErrorContains(t, err, "braces")
}

func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never responds
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	s := soon()
	for name, addrs := range map[string][]string{
		"refused": {gone.Addr().String()}, "mute": {l.Addr().String()},
		"cluster": {gone.Addr().String(), l.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWindow(t, rediswindow.Options{Addrs: addrs, Timeout: 300 * time.Millisecond})
			start := time.Now()
			require.Equal(
				t,
				timer.CodeUnavailable,
				timer.CodeOf(w.Put(t.Context(), []timer.Fire{fireIn(s, 1, 1)})),
			)
			_, err := w.Open(t.Context(), s)
			require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
			_, err = w.Range(t.Context(), s, 0, 1, 1)
			require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
			require.Equal(t, timer.CodeUnavailable, timer.CodeOf(w.Drop(t.Context(), s)))
			require.Equal(t, timer.CodeUnavailable, timer.CodeOf(w.Ping(t.Context())))
			require.Less(t, time.Since(start), 20*time.Second, "five calls of 300 ms")
		})
	}
}

// TestServerRestartLosesGenerations runs the loss of W3 for real: a server without persistence is
// killed and restarted.
func TestServerRestartLosesGenerations(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWindow(t, rediswindow.Options{Addrs: []string{server.addr}, Timeout: 5 * time.Second})
	s := soon()
	up := func() {
		require.Eventually(
			t,
			func() bool { return w.Ping(t.Context()) == nil },
			time.Minute,
			20*time.Millisecond,
		)
	}
	server.start(t)
	up()
	first, err := w.Open(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, w.Put(t.Context(), []timer.Fire{fireIn(s, 1, 1)}))
	server.kill(t)
	require.Equal(
		t,
		timer.CodeUnavailable,
		timer.CodeOf(w.Put(t.Context(), []timer.Fire{fireIn(s, 2, 2)})),
	)
	server.start(t)
	up()
	require.NoError(t, w.Put(t.Context(), []timer.Fire{fireIn(s, 3, 3)}))
	page := readAll(t, w, s)
	require.NotEqual(t, first, page.Generation)
	require.Equal(t, []timer.Fire{fireIn(s, 3, 3)}, page.Fires)
	second, err := w.Open(t.Context(), s)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

// TestFullServerIsReported checks that Put returns the error of a server that is out of memory.
func TestFullServerIsReported(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	server.start(t, "--maxmemory", "1500kb", "--maxmemory-policy", "noeviction")
	w := newWindow(t, rediswindow.Options{Addrs: []string{server.addr}})
	require.Eventually(
		t,
		func() bool { return w.Ping(t.Context()) == nil },
		time.Minute,
		20*time.Millisecond,
	)
	s := soon()
	var err error
	for i := range 100 {
		fires := make([]timer.Fire, 1000)
		for j := range fires {
			fires[j] = fireIn(s, int64(j), timer.ID(i*1000+j+1))
		}
		if err = w.Put(t.Context(), fires); err != nil {
			break
		}
	}
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	require.ErrorContains(t, err, "OOM")
}

func TestPingWarnsOfLossySettings(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	server.start(t, "--maxmemory-policy", "allkeys-lru", "--save", "60 1", "--appendonly", "yes")
	var log bytes.Buffer
	w := newWindow(t, rediswindow.Options{Addrs: []string{server.addr}, Logger: zerolog.New(&log)})
	require.Eventually(
		t,
		func() bool { return w.Ping(t.Context()) == nil },
		time.Minute,
		20*time.Millisecond,
	)
	require.NoError(t, w.Ping(t.Context()))
	require.Equal(
		t,
		3,
		bytes.Count(log.Bytes(), []byte("lose window entries")),
		"each once: %s",
		log.String(),
	)
	require.Contains(t, log.String(), "allkeys-lru")
}

func TestUnreadableEntriesAreIgnored(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	prefix += t.Name()
	p := part(t, rediswindow.Options{Addrs: addrs, Prefix: prefix})
	client := redis.NewClient(&redis.Options{Addr: addrs[0]})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := soon()
	good := fireIn(s, 2, 1)
	require.NoError(t, p.Window.Put(t.Context(), []timer.Fire{good}))
	require.NoError(t, client.ZAdd(
		t.Context(),
		key(prefix, s),
		redis.Z{
			Score:  float64(good.RunAtMS - 1),
			Member: "\xff junk",
		},
		redis.Z{Score: float64(good.RunAtMS + 1), Member: ""},
	).Err())
	var log bytes.Buffer
	w := newWindow(t, rediswindow.Options{Addrs: addrs, Prefix: prefix, Logger: zerolog.New(&log)})
	require.Equal(t, []timer.Fire{good}, readAll(t, w, s).Fires)
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("unreadable window entry")))
}

func BenchmarkPut500(b *testing.B) {
	addrs, prefix := testenv.Redis(b)
	w, err := rediswindow.New(rediswindow.Options{Addrs: addrs, Prefix: prefix + b.Name()})
	require.NoError(b, err)
	s := soon()
	fires := make([]timer.Fire, 500)
	n := timer.ID(0)
	b.ReportAllocs()
	for b.Loop() {
		for i := range fires {
			n++
			fires[i] = fireIn(s, int64(n)%timer.MinuteMS, n)
		}
		require.NoError(b, w.Put(b.Context(), fires))
	}
	require.NoError(b, w.Drop(b.Context(), s))
	require.NoError(b, w.Close())
}

func BenchmarkRange500(b *testing.B) {
	addrs, prefix := testenv.Redis(b)
	w, err := rediswindow.New(rediswindow.Options{Addrs: addrs, Prefix: prefix + b.Name()})
	require.NoError(b, err)
	s := soon()
	fires := make([]timer.Fire, 10_000)
	for i := range fires {
		fires[i] = fireIn(s, int64(i)*5, timer.ID(i+1))
	}
	require.NoError(b, w.Put(b.Context(), fires))
	b.ReportAllocs()
	for b.Loop() {
		p, err := w.Range(b.Context(), s, fires[2000].RunAtMS, 1<<60, 500)
		require.NoError(b, err)
		require.Len(b, p.Fires, 500)
	}
	require.NoError(b, w.Drop(b.Context(), s))
	require.NoError(b, w.Close())
}
