package rediswindow

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/timer"
)

// claimTTL is how long a claim of the prefix lasts without renewal. A database that a restore has
// replaced has ended before an alert of ten minutes.
const claimTTL = 5 * time.Minute

// Claim claims the prefix for a database, or renews its claim. If the prefix is claimed for another
// database, it returns the name of the process that claimed it. Of two that claim at once, one wins.
// A claim that nobody renews ends by itself, also if its process dies between any two commands.
func (w *Window) Claim(ctx context.Context, database, process string) (other string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	key := w.prefix + ":database"
	mine := database + " "
	free, err := w.client.SetNX(ctx, key, mine+process, claimTTL).Result()
	if err != nil {
		return "", timer.Unavailable("claiming the prefix in Redis", err)
	}
	if free {
		return "", nil
	}
	claim, err := w.client.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil): // it has just ended
		return "", nil
	case err != nil:
		return "", timer.Unavailable("reading the claim of the prefix in Redis", err)
	case !strings.HasPrefix(claim, mine):
		_, other, _ = strings.Cut(claim, " ")
		return other, nil
	}
	if err := w.client.PExpire(ctx, key, claimTTL).Err(); err != nil {
		return "", timer.Unavailable("renewing the claim of the prefix in Redis", err)
	}
	return "", nil
}
