package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// backfillCacheSize is how many backfills are cached.
const backfillCacheSize = 1000

// Backfills caches which backfills are cancelled, for at most a second. Cancelling a backfill
// finishes its unclaimed fires; the owner of a claimed fire skips it.
type Backfills struct {
	store Store
	clock *clock.Clock
	cache *lru.Cache[timer.ID, cachedBackfill]

	mu     sync.Mutex
	resets int // counts resets
}

type cachedBackfill struct {
	cancelled bool
	read      time.Time
}

func newBackfills(st Store, c *clock.Clock) *Backfills {
	return &Backfills{
		store: st,
		clock: c,
		cache: newLRU[timer.ID, cachedBackfill](backfillCacheSize),
	}
}

// Known reports whether a backfill is cancelled, if the cache knows.
func (b *Backfills) Known(id timer.ID) (cancelled, ok bool) {
	k, ok := b.cache.Get(id)
	return k.cancelled, ok && (k.cancelled || b.clock.Within(MaxAgeAtDecision, k.read))
}

// BackfillQuestion asks for a backfill of an app.
type BackfillQuestion struct {
	App string
	ID  timer.ID
}

// Cancelled reports whether a backfill is cancelled. It reads that at most once per backfill and
// second, because a lookup has one round trip per app at a time.
func (b *Backfills) Cancelled(ctx context.Context, q BackfillQuestion) (bool, error) {
	if cancelled, ok := b.Known(q.ID); ok {
		return cancelled, nil
	}
	b.mu.Lock()
	resets := b.resets
	b.mu.Unlock()
	sent := time.Now()
	now, err := b.store.Backfill(ctx, q.App, q.ID)
	if err != nil && timer.CodeOf(err) != timer.CodeNotFound {
		return false, fmt.Errorf("reading a backfill: %w", err)
	}
	cancelled := now.Status == store.BackfillCancelled
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resets == resets { // otherwise it may be of the database before, and stay for good
		b.cache.Add(q.ID, cachedBackfill{cancelled, sent})
	}
	return cancelled, nil
}

// reset drops all backfills, also those that are being read.
func (b *Backfills) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cache.Purge()
	b.resets++
}
