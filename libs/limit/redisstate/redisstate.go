package redisstate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Defaults.
const (
	DefaultPrefix  = "carillon"
	DefaultTimeout = 250 * time.Millisecond
)

// Options configure a SharedState.
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
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	Prefix  string        // first part of every key, without braces; default DefaultPrefix
	Timeout time.Duration // of every Sync; default DefaultTimeout
}

// SharedState is a shared limit state in Redis. It is safe for concurrent use.
type SharedState struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
}

var _ limit.SharedState = (*SharedState)(nil)

// New returns a shared state. It does not connect: while Redis is unavailable, Sync returns errors.
// New itself fails only for invalid options.
func New(o Options) (*SharedState, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("redis limit state: no address")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, errors.New(
			"redis limit state: braces in the prefix would change the cluster node of a key",
		)
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 o.Addrs,
		IsClusterMode:         o.Cluster,
		Username:              o.Username,
		Password:              o.Password,
		MasterName:            o.SentinelMaster,
		SentinelUsername:      o.SentinelUsername,
		SentinelPassword:      o.SentinelPassword,
		Dialer:                o.Dial,
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		ContextTimeoutEnabled: true,
		// No retries: there is one Sync at a time, and a repeated one takes tokens twice.
		MaxRetries:               -1,
		PoolSize:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &SharedState{client: client, prefix: o.Prefix, timeout: o.Timeout}, nil
}

// Sync implements limit.SharedState with one pipeline, split by node in a cluster.
func (l *SharedState) Sync(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	grants := make([]limit.Grant, len(demands))
	again, err := l.send(ctx, executor, demands, grants, nil)
	if err == nil && len(again) > 0 {
		// A restarted or new server does not know the script. Demands that it did not run are sent
		// again with the text of the script.
		_, err = l.send(ctx, executor, demands, grants, again)
	}
	if err != nil {
		return nil, timer.Unavailable("sharing limits through Redis", err)
	}
	return grants, nil
}

// send sends demands. If of is nil it sends all, with the hash of the script. Otherwise it sends
// those with the given indexes, with the text of the script. It returns the indexes of demands that
// were not run because the script is unknown.
func (l *SharedState) send(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
	grants []limit.Grant,
	of []int,
) (unknown []int, err error) {
	withText := of != nil
	if !withText {
		for i := range demands {
			of = append(of, i)
		}
	}
	pipe := l.client.Pipeline()
	cmds := make([]*redis.Cmd, len(of))
	for n, i := range of {
		w := &demands[i]
		keys := []string{l.key(w.App)}
		args := []any{
			executor,
			strconv.FormatFloat(w.Settings.Rate, 'f', -1, 64),
			w.Settings.Burst,
			w.Tokens,
			w.Settings.Concurrent,
			w.InUse,
			w.Slots,
			limit.SlotTTL.Microseconds(),
			limit.SlotRotation.Microseconds(),
		}
		for _, n := range w.Waiting {
			args = append(args, n)
		}
		for _, n := range limit.DefaultWeights() {
			args = append(args, n)
		}
		args = append(args, limit.WaitTTL.Microseconds(), w.Starts)
		if withText {
			cmds[n] = syncScript.Eval(ctx, pipe, keys, args...)
		} else {
			cmds[n] = syncScript.EvalSha(ctx, pipe, keys, args...)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range of {
		reply, err := cmds[n].Int64Slice()
		switch {
		case err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") && !withText:
			unknown = append(unknown, i)
			continue
		case err != nil:
			return nil, err
		case len(reply) < 4:
			return nil, fmt.Errorf("unexpected reply of the limit script: %v", reply)
		}
		grants[i] = limit.Grant{
			Tokens: int(
				reply[0],
			),
			NextToken: time.Duration(reply[1]) * time.Microsecond,
			Slots:     int(reply[2]),
			Executors: int(reply[3]),
		}
		for _, turn := range reply[4:] {
			if turn < 0 || turn >= int64(limit.Priorities) {
				return nil, fmt.Errorf("unexpected reply of the limit script: %v", reply)
			}
			grants[i].Order = append(grants[i].Order, limit.Priority(turn))
		}
	}
	return unknown, nil
}

func (l *SharedState) key(app string) string { return l.prefix + ":{l:" + app + "}" }

// Ping checks whether Redis responds.
func (l *SharedState) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.client.Ping(ctx).Err(); err != nil {
		return timer.Unavailable("pinging Redis", err)
	}
	return nil
}

// Close closes the connections.
func (l *SharedState) Close() error {
	if err := l.client.Close(); err != nil {
		return fmt.Errorf("closing Redis connections: %w", err)
	}
	return nil
}
