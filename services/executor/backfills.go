package executor

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// backfillCacheSize is how many backfills are cached.
const backfillCacheSize = 1000

// backfillStore reads backfills.
type backfillStore interface {
	Backfill(ctx context.Context, app string, id timer.ID) (store.Backfill, error)
}

// backfills caches which backfills are cancelled, for at most a second. Cancelling a backfill
// finishes its unclaimed fires; the owner of a claimed fire skips it.
type backfills struct {
	store backfillStore
	cache *lru.Cache[timer.ID, cachedBackfill]
}

type cachedBackfill struct {
	cancelled bool
	read      time.Time
}

func newBackfills(st backfillStore) (*backfills, error) {
	cache, err := lru.New[timer.ID, cachedBackfill](backfillCacheSize)
	if err != nil {
		return nil, fmt.Errorf("making the cache of backfills: %w", err)
	}
	return &backfills{store: st, cache: cache}, nil
}

// known reports whether a backfill is cancelled, if the cache knows.
func (b *backfills) known(id timer.ID) (cancelled, ok bool) {
	k, ok := b.cache.Get(id)
	return k.cancelled, ok && (k.cancelled || time.Since(k.read) < maxStateAgeAtDecision)
}

// cancelled reports whether a backfill is cancelled. It reads that at most once per backfill and
// second, because a lookup has one round trip per app at a time.
func (b *backfills) cancelled(ctx context.Context, app string, id timer.ID) (bool, error) {
	if cancelled, ok := b.known(id); ok {
		return cancelled, nil
	}
	sent := time.Now()
	now, err := b.store.Backfill(ctx, app, id)
	if err != nil && timer.CodeOf(err) != timer.CodeNotFound {
		return false, fmt.Errorf("reading a backfill: %w", err)
	}
	cancelled := now.Status == store.BackfillCancelled
	b.cache.Add(id, cachedBackfill{cancelled, sent})
	return cancelled, nil
}
