package rediswindow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
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

// entriesPerCommand is how many entries one ZADD carries. Redis serves no other client meanwhile,
// for about 1 ms.
const entriesPerCommand = 500

// Options configure a window.
type Options struct {
	Addrs    []string // host:port; several are nodes of one cluster, not necessarily all
	Cluster  bool     // treat a single address as a cluster
	Username string
	Password string
	// SentinelMaster is the name of a master that sentinels watch. The addresses are then those of
	// the sentinels.
	SentinelMaster   string
	SentinelUsername string
	SentinelPassword string
	// Dial connects to a server, for example over TLS; nil means plain TCP.
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	Prefix   string        // first part of every key, without braces; default DefaultPrefix
	Timeout  time.Duration // of every call, including retries; default DefaultTimeout
	PoolSize int           // connections per server; default of go-redis: ten per core
	Logger   zerolog.Logger
}

func (o *Options) validate() error {
	if len(o.Addrs) == 0 {
		return errors.New("redis window: no address")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return errors.New(
			"redis window: braces in the prefix would change the cluster node of a key",
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
	dials   *dialError

	mu      sync.Mutex
	checked bool // the settings of the servers were checked
}

var _ window.Window = (*Window)(nil)

// New returns a window. It does not connect: while Redis is unavailable, the calls return errors.
// New itself fails only for invalid options.
func New(o Options) (*Window, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	dials := new(dialError)
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 o.Addrs,
		IsClusterMode:         o.Cluster,
		Username:              o.Username,
		Password:              o.Password,
		MasterName:            o.SentinelMaster,
		SentinelUsername:      o.SentinelUsername,
		SentinelPassword:      o.SentinelPassword,
		Dialer:                dials.watch(o.Dial),
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		ContextTimeoutEnabled: true,
		// callers fall back to the store, and call again soon.
		MaxRetries:               1,
		PoolSize:                 o.PoolSize,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &Window{
		client: client, prefix: o.Prefix, timeout: o.Timeout, log: o.Logger, dials: dials,
	}, nil
}

// Put implements window.Window. It sends one pipeline, split by node in a cluster. If the pipeline
// fails between the entries of a slice and their expiry, the next Put or Open of the slice sets the
// expiry. A trigger opens every slice.
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
		return timer.Unavailable("putting entries into Redis", err)
	}
	return nil
}

// bySlice encodes fires by slice, in one allocation for most of them.
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

// open returns the generation of the slice, or stores the given one, in one step. Two concurrent
// calls get the same generation.
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
