// Package redisstate is the ledger of limits in Redis, one server or a cluster: a hash for each app
// that is limited and active, "<prefix>:{l:<app>}", which Redis drops when the app is idle. Losing
// it all costs each app one full bucket, and slots that come back with the next exchange.
package redisstate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

// Options of a ledger.
type Options struct {
	Addrs    []string // host:port; several are the nodes of one cluster, of which some suffice
	Cluster  bool     // a single address is that of a cluster, too
	Username string
	Password string
	TLS      *tls.Config   // nil: none
	Prefix   string        // first part of every key, without braces; default DefaultPrefix
	Timeout  time.Duration // of every exchange; default DefaultTimeout
}

// SharedState is a ledger in Redis. It is safe for concurrent use.
type SharedState struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
}

var _ limit.SharedState = (*SharedState)(nil)

// New returns a ledger. It does not connect: that Redis is away shows in the exchanges, and passes.
// Its error means bad options.
func New(o Options) (*SharedState, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("options of the Redis ledger: no address")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, errors.New(
			"options of the Redis ledger: braces in the prefix would change which cluster node keeps a key",
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
		TLSConfig:             o.TLS,
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		ContextTimeoutEnabled: true,
		// one exchange at a time; an exchange that is repeated takes tokens twice.
		MaxRetries:               -1,
		PoolSize:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &SharedState{client: client, prefix: o.Prefix, timeout: o.Timeout}, nil
}

// Sync implements limit.Ledger: one pipeline, cut by node in a cluster.
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
		// A server that was restarted, or is new, does not know the script: those that it did not
		// run are sent with its text.
		_, err = l.send(ctx, executor, demands, grants, again)
	}
	if err != nil {
		return nil, timer.Unavailable("sharing limits through Redis", err)
	}
	return grants, nil
}

// send sends the wishes of the given indexes with the script's text, or all with its hash where
// there are none. It returns the indexes of those that were not run because the script is unknown.
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
			return nil, fmt.Errorf("the script answered %v", reply)
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
				return nil, fmt.Errorf("the script answered %v", reply)
			}
			grants[i].Order = append(grants[i].Order, limit.Priority(turn))
		}
	}
	return unknown, nil
}

func (l *SharedState) key(app string) string { return l.prefix + ":{l:" + app + "}" }

// Ping asks whether Redis answers.
func (l *SharedState) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.client.Ping(ctx).Err(); err != nil {
		return timer.Unavailable("asking Redis", err)
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
