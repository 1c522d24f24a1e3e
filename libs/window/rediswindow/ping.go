package rediswindow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Ping implements window.Window. In a cluster every master must respond, because each holds a part
// of the slices. The first successful Ping also checks the servers' settings, and warns of those
// that lose entries silently. A sentinel, a replica or one node of a cluster in place of a master is
// an error.
func (w *Window) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ping := func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }
	if err := w.each(ctx, ping); err != nil {
		return timer.Unavailable("pinging Redis", w.dials.orCause(err))
	}
	if err := w.each(ctx, checkRole); err != nil {
		return timer.Unavailable("checking the role of Redis", err)
	}
	if c, ok := w.client.(*redis.Client); ok {
		if err := checkAlone(ctx, c); err != nil {
			return timer.Unavailable("checking the role of Redis", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checked {
		return nil
	}
	w.checked = w.each(ctx, w.checkSettings) == nil
	return nil
}

// Errors of Ping where a server answers, and the window cannot be in it.
var (
	ErrSentinel = errors.New("the server is a sentinel, which keeps no data")
	ErrReplica  = errors.New("the server is a replica, which takes no writes")
	ErrCluster  = errors.New(
		"the server is one node of a cluster, and refuses the keys of the others",
	)
)

// checkRole refuses sentinels and replicas. A client that may not ask for the role may still use the
// server.
func checkRole(ctx context.Context, c *redis.Client) error {
	role, err := c.Do(ctx, "ROLE").Slice()
	if err != nil || len(role) == 0 {
		return ctx.Err() //nolint:wrapcheck // the caller says what was asked
	}
	switch role[0] {
	case "sentinel":
		return fmt.Errorf("%s: %w", c.Options().Addr, ErrSentinel)
	case "slave":
		return fmt.Errorf("%s: %w", c.Options().Addr, ErrReplica)
	}
	return ctx.Err() //nolint:wrapcheck // as above
}

// checkAlone refuses a node of a cluster of several masters, to which the client does not speak as to
// a cluster. A client that may not ask may still use the server.
func checkAlone(ctx context.Context, c *redis.Client) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return ctx.Err() //nolint:wrapcheck // the caller says what was asked
	}
	for line := range strings.Lines(info) {
		size, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_size:")
		if n, err := strconv.Atoi(size); ok && err == nil && n > 1 {
			return fmt.Errorf("%s: %w", c.Options().Addr, ErrCluster)
		}
	}
	return nil
}

// each calls f for every server that holds slices.
func (w *Window) each(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := w.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f) //nolint:wrapcheck // the caller says what was asked
	case *redis.Client:
		return f(ctx, c)
	}
	return nil
}

// checkSettings logs a warning for unsuitable settings. It fails only if the server is unavailable.
// A client that may not read the settings may still use the server.
func (w *Window) checkSettings(ctx context.Context, c *redis.Client) error {
	log := w.log.With().Str(logging.Server, "redis").Str(logging.Addr, c.Options().Addr).Logger()
	for setting, wanted := range map[string]string{
		"maxmemory-policy": "noeviction", "save": "", "appendonly": "no",
	} {
		got, err := c.ConfigGet(ctx, setting).Result()
		switch {
		case ctx.Err() != nil:
			return ctx.Err() //nolint:wrapcheck // tried again with the next Ping
		case err != nil:
			log.Warn().
				Err(err).
				Str("setting", setting).
				Msg("redis setting not readable, check it by hand")
		case got[setting] != wanted:
			log.Warn().Str("setting", setting).Str("value", got[setting]).Str("wanted", wanted).
				Msg("redis setting can lose window entries, their fires would be late")
		}
	}
	return nil
}
