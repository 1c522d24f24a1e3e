// Package rediswindow is the window in Redis, one server or a cluster.
//
// # Keys
//
// A slice is one key, a sorted set:
//
//	<prefix>:{w:<minute>:<bucket>}
//	    -inf    the generation, "g" and a random text; made by Open only
//	    run_at_ms  a mark: the bytes of a carillon.v1.Task
//
// The generation lives in the same key as the marks, so that whatever loses the marks (a restart
// without disk, an eviction, FLUSHALL, a slot without node) loses it too: there is no order of
// events in which one survives the other. The braces keep a slice on one node of a cluster, and
// slices spread over all. The key expires window.TTL after its minute; nothing else cleans up.
//
// A mark's bytes are the same for the same fire and revision, so putting it twice adds nothing.
// Should a fire's row have changed without a new revision, two marks of it lie there, and Range
// returns the one of the higher version.
//
// # What Redis must be
//
// Without snapshots and without eviction: a server that comes back from an old snapshot, and a
// replica that took over before it had everything, show the generation and yet miss marks. Nothing
// is lost then, but what is missing waits for the scheduler's sweep. Ping looks once and warns.
package rediswindow

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// Defaults.
const (
	DefaultPrefix  = "carillon"
	DefaultTimeout = 2 * time.Second
)

// entriesPerCommand is how many marks one ZADD carries: Redis serves nobody else meanwhile, some 1
// ms.
const entriesPerCommand = 500

// Options of a window.
type Options struct {
	Addrs    []string // host:port; several are the nodes of one cluster, of which some suffice
	Cluster  bool     // a single address is that of a cluster, too
	Username string
	Password string
	TLS      *tls.Config   // nil: none
	Prefix   string        // first part of every key, without braces; default DefaultPrefix
	Timeout  time.Duration // of every call, its retries included; default DefaultTimeout
	PoolSize int           // connections to each server; default go-redis's, ten per core
	Logger   zerolog.Logger
}

func (o *Options) validate() error {
	if len(o.Addrs) == 0 {
		return errors.New("options of the Redis window: no address")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return errors.New(
			"options of the Redis window: braces in the prefix would change which cluster node keeps a key",
		)
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return nil
}

// Window is a window in Redis. It is safe for concurrent use.
type Window struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	log     zerolog.Logger

	mu      sync.Mutex
	checked bool // the servers' settings were looked at
}

var _ window.Window = (*Window)(nil)

// New returns a window. It does not connect: that Redis is away shows in the calls, and passes. Its
// error means bad options.
func New(o Options) (*Window, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 o.Addrs,
		IsClusterMode:         o.Cluster,
		Username:              o.Username,
		Password:              o.Password,
		TLSConfig:             o.TLS,
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		ContextTimeoutEnabled: true,
		// whoever calls has the store to fall back to, and soon calls again.
		MaxRetries:               1,
		PoolSize:                 o.PoolSize,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &Window{client: client, prefix: o.Prefix, timeout: o.Timeout, log: o.Logger}, nil
}

// Put implements window.Window: one pipeline, cut by node in a cluster. Should it break off between
// a slice's marks and its expiry, the next Put or Open of the slice sets that, and a trigger opens
// every slice.
func (w *Window) Put(ctx context.Context, fires []timer.Fire) error {
	if len(fires) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	pipe := w.client.Pipeline()
	for s, entries := range bySlice(fires) {
		key := w.key(s)
		for chunk := range slices.Chunk(entries, entriesPerCommand) {
			pipe.ZAdd(ctx, key, chunk...)
		}
		pipe.PExpireAt(ctx, key, expiry(s))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return timer.Unavailable("marking in Redis", err)
	}
	return nil
}

// bySlice encodes fires, in one allocation for most of them.
func bySlice(fires []timer.Fire) map[window.Slice][]redis.Z {
	const usualLen = 48
	buf := make([]byte, 0, len(fires)*usualLen)
	out := make(map[window.Slice][]redis.Z)
	for i := range fires {
		from := len(buf)
		buf = taskwire.Append(buf, &fires[i])
		s := window.SliceOf(&fires[i])
		out[s] = append(
			out[s],
			redis.Z{Score: float64(fires[i].RunAtMS), Member: buf[from:len(buf):len(buf)]},
		)
	}
	return out
}

// open returns the slice's generation, or makes the one it is offered, in one step: of two that
// open at once both get one.
var open = redis.NewScript(`
local g = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '-inf', 'LIMIT', 0, 1)[1]
if not g then
	g = ARGV[1]
	redis.call('ZADD', KEYS[1], '-inf', g)
end
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return g
`)

// Open implements window.Window.
func (w *Window) Open(ctx context.Context, s window.Slice) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	g, err := open.Run(ctx, w.client, []string{w.key(s)}, "g"+rand.Text(), expiry(s).UnixMilli()).
		Text()
	if err != nil {
		return "", timer.Unavailable("opening a slice in Redis", err)
	}
	return g, nil
}

// Drop implements window.Window.
func (w *Window) Drop(ctx context.Context, s window.Slice) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if err := w.client.Unlink(ctx, w.key(s)).Err(); err != nil {
		return timer.Unavailable("dropping a slice in Redis", err)
	}
	return nil
}

// Close implements window.Window.
func (w *Window) Close() error {
	if err := w.client.Close(); err != nil {
		return fmt.Errorf("closing Redis connections: %w", err)
	}
	return nil
}

func (w *Window) key(s window.Slice) string {
	b := make([]byte, 0, len(w.prefix)+32) //nolint:mnd // two numbers and the braces fit
	b = append(append(b, w.prefix...), ":{w:"...)
	b = append(strconv.AppendInt(b, s.Minute, 10), ':')
	b = strconv.AppendInt(b, int64(s.Bucket), 10)
	return string(append(b, '}'))
}

func expiry(s window.Slice) time.Time {
	return time.UnixMilli((s.Minute + 1) * timer.MinuteMS).Add(window.TTL)
}
