package redisstate

import (
	"context"
	"errors"
	"fmt"
	"net"
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
		MaxRetries: -1,
		// Nor is dialing repeated: a server that refuses connections would hold up the others.
		DialerRetries:            1,
		PoolSize:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &SharedState{client: client, prefix: o.Prefix, timeout: o.Timeout}, nil
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
