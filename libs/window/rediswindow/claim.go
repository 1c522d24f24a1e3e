package rediswindow

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/timer"
)

// claimTTL is how long a claim of the prefix lasts without renewal. A database that a restore has
// replaced has ended before an alert of ten minutes.
const claimTTL = 5 * time.Minute

// claim stores or renews a claim, in one step, and returns the one that is in force.
var claim = redis.NewScript(`
local have = redis.call('GET', KEYS[1])
if not have then
	have = ARGV[1] .. ARGV[2]
	redis.call('SET', KEYS[1], have, 'PX', ARGV[3])
elseif string.sub(have, 1, #ARGV[1]) == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return have
`)

// Claim claims the prefix for a database, or renews its claim. If the prefix is claimed for another
// database, it returns the name of the process that claimed it. Of two that claim at once, one wins.
// Repeating it renews. A claim that nobody renews ends by itself.
func (w *Window) Claim(ctx context.Context, database, process string) (other string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	key, mine := w.prefix+":database", database+" "
	have, err := claim.Run(ctx, w.client, []string{key}, mine, process, claimTTL.Milliseconds()).
		Text()
	if err != nil {
		return "", timer.Unavailable("claiming the prefix in Redis", err)
	}
	if !strings.HasPrefix(have, mine) {
		_, other, _ = strings.Cut(have, " ")
	}
	return other, nil
}
