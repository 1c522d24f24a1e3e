package api

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// How long what the store says of a key is believed. So a key that was revoked is refused within a
// second, and within five where the store is slow or away; by the process that revoked it, at once.
const (
	keyTTL        = time.Second
	keyStaleTTL   = 5 * time.Second
	maxCachedKeys = 4096
)

// Looks a second for keys that are not known to be good. A key's form is public: whoever likes can
// guess as fast as he can send, and he shall use up his own looks and not those of others. So they
// are counted by the address they come from (an IPv6 caller has a whole /64 of them), and those
// that found a key count no more: callers that share an address, behind a balancer, are not counted
// against each other. All together they are what the store is spared.
const (
	lookupsPerAddress = 20
	lookupsPerSecond  = 1000
)

// keyCache keeps what the store says of keys, so that a request costs no query, and a flood of
// guesses neither queries nor memory without bound. What is a key and what is none lie apart:
// however many guesses there are, they drop no key.
type keyCache struct {
	lookup func(ctx context.Context, id string) (store.APIKey, error)
	now    func() time.Time

	mu          sync.Mutex
	known       map[string]*keyEntry // revoked ones, too
	unknown     map[string]time.Time // when the store had none of the id
	windowStart time.Time            // the one that looks are counted in
	lookups     int
	byAddr      map[netip.Addr]int
}

type keyEntry struct {
	key        store.APIKey
	loadedAt   time.Time
	refreshing bool // somebody asks the store
}

func newKeyCache(lookup func(context.Context, string) (store.APIKey, error)) *keyCache {
	return &keyCache{
		lookup:  lookup,
		now:     time.Now,
		known:   make(map[string]*keyEntry),
		unknown: make(map[string]time.Time),
		byAddr:  make(map[netip.Addr]int),
	}
}

// identify returns whose a key is. Its error is a *denial, or that the store cannot be asked.
func (c *keyCache) identify(ctx context.Context, k apikey.Key) (caller, error) {
	stored, found, err := c.get(ctx, k.ID())
	switch {
	case err != nil:
		return caller{}, err
	case !found || len(stored.Hash) != len(apikey.Hash{}) || !k.Matches(apikey.Hash(stored.Hash)):
		return caller{}, &denial{deniedUnknown, k.ID()}
	case stored.RevokedMS != 0:
		return caller{}, &denial{deniedRevoked, k.ID()}
	}
	return caller{
		deployment: stored.App == "",
		app:        stored.App,
		scope:      apikey.Scope(stored.Scope),
		keyID:      k.ID(),
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
	from := clientAddress(ctx)
	if e != nil {
		e.refreshing = true
	} else if !c.allowLookup(now, from) {
		c.mu.Unlock()
		return store.APIKey{}, false, timer.Unavailable("too many unknown keys at once", nil)
	}
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
		c.makeRoom(id)
		c.known[id] = &keyEntry{key: k, loadedAt: now}
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

// allowLookup counts a look. Of an address that may look no more none is counted, so there are at most as
// many addresses as looks.
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

// makeRoom makes room for a key. What was not asked for lately goes first; where all are in use
// some go, and cost a query when they come again.
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

// cacheUnknown keeps that an id is none, in room of its own.
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

// invalidate drops a key that was revoked here.
func (c *keyCache) invalidate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

// clientAddress returns whom the looks of a request count for.
func clientAddress(ctx context.Context) netip.Addr {
	remote, _ := ctx.Value(remoteKey{}).(string)
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // all who cannot be told apart are one
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(64)
		if err != nil {
			return netip.Addr{}
		}
		return p.Addr()
	}
	return a
}
