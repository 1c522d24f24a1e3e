package auth

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/requests"
)

// How long a key from the store is cached. A revoked key is refused within one second, or within
// five while the store is slow or unavailable. The process that revoked it refuses it at once.
const (
	keyTTL        = time.Second
	keyStaleTTL   = 5 * time.Second
	maxCachedKeys = 4096
)

// Lookups a second for keys that are not known to be valid. Anyone can guess keys, because their
// form is public, and a guesser must use up only its own lookups. Lookups therefore count per
// address; an IPv6 caller counts by its /64 network. Lookups that find a key do not count, so
// callers behind one load balancer do not limit each other. A guesser behind it keeps out those whose
// key is not cached, as docs/security.md says. The second limit protects the store.
const (
	lookupsPerAddress = 20
	lookupsPerSecond  = 1000
)

// keyCache caches keys from the store, so that a request costs no query, and a burst of guesses
// costs neither queries nor unbounded memory. Known and unknown ids have separate space, so guesses
// never evict a key. It is safe for concurrent use.
type keyCache struct {
	lookup func(ctx context.Context, id string) (store.APIKey, error)
	slots  requests.Slots // of lookups
	now    func() time.Time

	mu          sync.Mutex
	generation  int                  // grows when a key is removed: what was read before is not kept
	known       map[string]*keyEntry // including revoked keys
	unknown     map[string]time.Time // when the store did not find the id
	windowStart time.Time            // start of the second in which lookups are counted
	lookups     int
	byAddr      map[netip.Addr]int
}

type keyEntry struct {
	key        store.APIKey
	loadedAt   time.Time
	refreshing bool // a lookup is in progress
}

func newKeyCache(
	lookup func(context.Context, string) (store.APIKey, error), slots requests.Slots,
) *keyCache {
	return &keyCache{
		lookup:  lookup,
		slots:   slots,
		now:     time.Now,
		known:   make(map[string]*keyEntry),
		unknown: make(map[string]time.Time),
		byAddr:  make(map[netip.Addr]int),
	}
}

// identify returns the owner of a key. The error is a *denial, errTooMany, or says that the store is
// unavailable.
func (c *keyCache) identify(ctx context.Context, k apikey.Key) (caller, error) {
	stored, found, err := c.get(ctx, k.ID())
	switch {
	case err != nil:
		return caller{}, err
	case !found || len(stored.Hash) != len(apikey.Hash{}) || !k.Matches(apikey.Hash(stored.Hash)):
		return caller{}, &denial{reason: deniedUnknown, id: k.ID()}
	case stored.RevokedMS != 0:
		return caller{}, &denial{reason: deniedRevoked, id: k.ID()}
	}
	return caller{
		deployment: stored.App == "",
		app:        stored.App,
		scope:      apikey.Scope(stored.Scope),
		keyID:      k.ID(),
		keyName:    stored.Name,
		kind:       store.ActorKey,
	}, nil
}

func (c *keyCache) get(ctx context.Context, id string) (store.APIKey, bool, error) {
	c.mu.Lock()
	now := c.now()
	e := c.known[id]
	if e != nil &&
		(now.Sub(e.loadedAt) < keyTTL || e.refreshing && now.Sub(e.loadedAt) < keyStaleTTL) {
		defer c.mu.Unlock()
		return e.key, true, nil
	}
	if loadedAt, is := c.unknown[id]; is && now.Sub(loadedAt) < keyTTL {
		c.mu.Unlock()
		return store.APIKey{}, false, nil
	}
	if !c.slots.TryAcquire() {
		defer c.mu.Unlock()
		if e != nil && now.Sub(e.loadedAt) < keyStaleTTL {
			return e.key, true, nil
		}
		return store.APIKey{}, false, errTooMany
	}
	defer c.slots.Release()
	from := requests.ClientAddress(ctx)
	if e != nil {
		e.refreshing = true
	} else if !c.allowLookup(now, from) {
		c.mu.Unlock()
		return store.APIKey{}, false, timer.Unavailable("too many unknown keys at once", nil)
	}
	generation := c.generation
	c.mu.Unlock()

	k, err := c.lookup(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e != nil {
		e.refreshing = false
	}
	switch {
	case err == nil:
		if e == nil && c.byAddr[from] > 0 {
			c.byAddr[from]--
		}
		delete(c.unknown, id)
		if generation == c.generation {
			c.makeRoom(id)
			c.known[id] = &keyEntry{key: k, loadedAt: now}
		}
		return k, true, nil
	case timer.CodeOf(err) == timer.CodeNotFound:
		delete(c.known, id)
		c.cacheUnknown(id, now)
		return store.APIKey{}, false, nil
	case e != nil && now.Sub(e.loadedAt) < keyStaleTTL:
		return e.key, true, nil
	}
	return store.APIKey{}, false, err
}

// allowLookup counts a lookup. It adds no address without lookups left, so there are at most as
// many addresses as lookups.
func (c *keyCache) allowLookup(now time.Time, from netip.Addr) bool {
	if now.Sub(c.windowStart) >= time.Second {
		c.windowStart, c.lookups = now, 0
		clear(c.byAddr)
	}
	if c.lookups >= lookupsPerSecond || c.byAddr[from] >= lookupsPerAddress {
		return false
	}
	c.lookups++
	c.byAddr[from]++
	return true
}

// makeRoom makes room for a key. It evicts expired entries first, then any; an evicted key costs
// one query when it is used again.
func (c *keyCache) makeRoom(id string) {
	if _, there := c.known[id]; there || len(c.known) < maxCachedKeys {
		return
	}
	now := c.now()
	for id, e := range c.known {
		if now.Sub(e.loadedAt) >= keyStaleTTL {
			delete(c.known, id)
		}
	}
	for id := range c.known {
		if len(c.known) <= maxCachedKeys*7/8 {
			break
		}
		delete(c.known, id)
	}
}

// cacheUnknown records that the store does not have an id.
func (c *keyCache) cacheUnknown(id string, now time.Time) {
	if len(c.unknown) >= maxCachedKeys {
		for id, loadedAt := range c.unknown {
			if now.Sub(loadedAt) >= keyTTL {
				delete(c.unknown, id)
			}
		}
	}
	if len(c.unknown) < maxCachedKeys {
		c.unknown[id] = now
	}
}

// invalidate removes a key that this process revoked.
func (c *keyCache) invalidate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	delete(c.known, id)
}
