package rediswindow

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Ping implements window.Window. In a cluster every master must answer: each keeps a part of the
// slices. The first Ping that succeeds looks at the servers' settings, and warns of those that lose
// marks unseen.
func (w *Window) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ping := func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }
	if err := w.each(ctx, ping); err != nil {
		return timer.Unavailable("asking Redis", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.checked {
		w.checked = w.each(ctx, w.checkSettings) == nil
	}
	return nil
}

// each calls f for every server that keeps slices.
func (w *Window) each(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := w.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f) //nolint:wrapcheck // the caller says what was asked
	case *redis.Client:
		return f(ctx, c)
	}
	return nil
}

// checkSettings warns, and never fails but for a server that went away: who may not read the
// settings may still use the server.
func (w *Window) checkSettings(ctx context.Context, c *redis.Client) error {
	log := w.log.With().Str(logging.Server, "redis").Str(logging.Addr, c.Options().Addr).Logger()
	for setting, wanted := range map[string]string{"maxmemory-policy": "noeviction", "save": ""} {
		got, err := c.ConfigGet(ctx, setting).Result()
		switch {
		case ctx.Err() != nil:
			return ctx.Err() //nolint:wrapcheck // tried again with the next Ping
		case err != nil:
			log.Warn().
				Err(err).
				Str("setting", setting).
				Msg("setting of Redis cannot be read: see that it is as it should be")
		case got[setting] != wanted:
			log.Warn().Str("setting", setting).Str("value", got[setting]).Str("wanted", wanted).
				Msg("setting of Redis lets marks get lost: their fires would be late")
		}
	}
	return nil
}
