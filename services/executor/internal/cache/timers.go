package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	minCachedStates      = 200_000 // or one for each fire in flight, if they are more
	maxCachedDefinitions = 50_000
	maxCachedBodies      = 64 << 20 // bytes of the bodies of definitions
)

// Timers is what this process knows of timers. Definitions are immutable and evicted only for
// space. States change: a cached state is true as of the last poll of the change log and usable
// only while that poll is recent.
type Timers struct {
	store Store
	clock *clock.Clock
	defs  *lru.Cache[store.VersionKey, *Definition]

	mu         sync.Mutex
	states     *lru.Cache[timer.ID, timer.State]
	bodies     int       // bytes of the bodies in defs
	polledAt   time.Time // when the last successful poll of the change log was sent
	generation int       // counts purges of the states
	resets     int       // counts resets
	// change log entries of whole apps that were applied, within the poll overlap
	appliedApps map[int64]bool
}

// Definition is a definition with the values derived from it once for all its fires.
type Definition struct {
	*timer.Definition

	Endpoint string // of its target; empty if it has several targets
}

func newTimers(st Store, c *clock.Clock, maxInflight int) *Timers {
	b := &Timers{
		store:       st,
		clock:       c,
		states:      newLRU[timer.ID, timer.State](max(minCachedStates, maxInflight)),
		appliedApps: make(map[int64]bool),
	}
	b.defs = newEvictingLRU(maxCachedDefinitions, func(_ store.VersionKey, d *Definition) {
		b.bodies -= d.BodyBytes()
	})
	return b
}

// addDefinition caches a definition. The bodies of the others make room for its own. The caller
// holds the lock, which guards the count of bytes.
func (b *Timers) addDefinition(key store.VersionKey, d *Definition) {
	if b.defs.Contains(key) { // the same: definitions are immutable
		return
	}
	b.bodies += d.BodyBytes()
	b.defs.Add(key, d)
	for b.bodies > maxCachedBodies {
		b.defs.RemoveOldest()
	}
}

// Current reports whether a version is the present one of a timer that is not deleted, as far as
// the cache knows.
func (b *Timers) Current(id timer.ID, version int32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.states.Peek(id)
	return !ok || s.Status != timer.StatusDeleted && s.Version <= version
}

// State returns a timer's cached state and the time as of which it is true. ok is false unless both
// are recent enough for a decision.
func (b *Timers) State(id timer.ID) (s timer.State, asOf time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok = b.states.Get(id)
	return s, b.polledAt, ok && b.clock.Within(MaxAgeAtDecision, b.polledAt)
}

// Load reads the missing states and definitions of the entries' timers, in two statements per
// batch.
func (b *Timers) Load(ctx context.Context, es []*inflight.Entry) error {
	var ids []timer.ID
	seen := make(map[timer.ID]bool, len(es))
	for _, e := range es {
		if id := e.Fire.Timer; !seen[id] {
			seen[id] = true
			if !b.states.Contains(id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 0 {
		if _, err := b.Read(ctx, ids); err != nil {
			return err
		}
	}
	var missing []*inflight.Entry
	var keys []DefinitionQuestion
	for _, e := range es {
		if state, ok := b.states.Peek(e.Fire.Timer); ok {
			e.Fire.Version, _ = admission.VersionOf(&e.Fire, &state)
		}
		k := e.VersionKey()
		if d, ok := b.defs.Get(k); ok {
			e.Def, e.Endpoint = d.Definition, d.Endpoint
		} else {
			missing = append(missing, e)
			keys = append(keys, DefinitionQuestion{k, e.Fire.AppID})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	read, err := b.ReadDefinitions(ctx, keys)
	if err != nil {
		return err
	}
	for i, e := range missing {
		if d := read[i]; e.Def == nil && d != nil {
			e.Def, e.Endpoint = d.Definition, d.Endpoint
		}
	}
	return nil
}

// EndpointOf returns the breaker's name for a target: its app and endpoint, or "" if it has none.
func EndpointOf(app int64, t *timer.Target) string {
	at := callback.Endpoint(t)
	if at == "" {
		return ""
	}
	return strconv.FormatInt(app, 10) + " " + at
}

// Definition returns a cached definition.
func (b *Timers) Definition(key store.VersionKey) (*Definition, bool) { return b.defs.Get(key) }

// DefinitionQuestion asks for a version of a timer's definition, of an app.
type DefinitionQuestion struct {
	Key store.VersionKey
	App int64
}

// ReadDefinitions reads definitions from the store and caches them. A missing one is nil. One that
// cannot be read is read again by each question: it may be mended.
func (b *Timers) ReadDefinitions(
	ctx context.Context,
	questions []DefinitionQuestion,
) ([]*Definition, error) {
	keys := make([]store.VersionKey, 0, len(questions))
	read := make(map[store.VersionKey]*Definition, len(questions))
	for _, q := range questions {
		if _, twice := read[q.Key]; !twice {
			read[q.Key] = nil
			keys = append(keys, q.Key)
		}
	}
	b.mu.Lock()
	resets := b.resets
	b.mu.Unlock()
	defs, err := b.store.Definitions(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading definitions: %w", err)
	}
	out := make([]*Definition, len(questions))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range questions {
		if d, ok := defs[q.Key]; ok && read[q.Key] == nil {
			read[q.Key] = &Definition{Definition: d}
			if !d.Several() {
				read[q.Key].Endpoint = EndpointOf(q.App, &d.Target)
			}
			// After a reset it may be of the database before.
			if b.resets == resets && d.Unreadable == "" {
				b.addDefinition(q.Key, read[q.Key])
			}
		}
		out[i] = read[q.Key]
	}
	return out, nil
}

// Read reads states from the store and caches them, a missing timer as missing. If the states were
// purged meanwhile, it caches nothing. The read may predate the change of an app that caused the
// purge, and a state does not show that.
func (b *Timers) Read(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	b.mu.Lock()
	generation := b.generation
	b.mu.Unlock()
	found, err := b.store.States(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading states: %w", err)
	}
	byID := make(map[timer.ID]*timer.State, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	out := make([]timer.State, len(ids))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, id := range ids {
		out[i].ID = id
		if s := byID[id]; s != nil {
			out[i] = *s
		}
		if b.generation == generation {
			out[i] = b.put(out[i])
		}
	}
	return out, nil
}

// apply applies change log entries to the cached states; other states are read when needed. It
// returns the apps named by entries that were not applied before, because overlapping polls return
// entries again.
func (b *Timers) apply(changes []store.Change) (apps []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		switch {
		case c.AppID != 0 && !b.appliedApps[c.Seq]:
			b.appliedApps[c.Seq] = true
			apps = append(apps, c.AppID)
		case c.AppID == 0 && b.states.Contains(c.State.ID):
			b.put(c.State)
		}
	}
	if len(apps) > 0 { // rare: an app was frozen or changed, and its timers are not known here
		b.purge()
	}
	return apps
}

// pruneAppChanges forgets the app entries up to seq, which no later poll returns.
func (b *Timers) pruneAppChanges(seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.appliedApps, func(s int64, _ bool) bool { return s <= seq })
}

// reset drops all states and definitions, and what was applied.
func (b *Timers) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.purge()
	b.defs.Purge()
	b.resets++
	clear(b.appliedApps)
}

func (b *Timers) purge() {
	b.states.Purge()
	b.generation++
}

// refreshed records that a poll of the change log, sent at the given time, has been applied.
func (b *Timers) refreshed(sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.polledAt) {
		b.polledAt = sent
	}
}

// PolledSince reports whether the last successful poll of the change log was sent at an instant of
// the monotonic clock, or later.
func (b *Timers) PolledSince(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.polledAt.Before(at)
}

// cached returns the timers whose state is cached.
func (b *Timers) cached(ids []timer.ID) []timer.ID {
	var known []timer.ID
	for _, id := range ids {
		if b.states.Contains(id) {
			known = append(known, id)
		}
	}
	return known
}

// put keeps the newer of two states, because overlapping reads may return in any order.
func (b *Timers) put(s timer.State) timer.State {
	if old, ok := b.states.Peek(s.ID); ok && newerState(old, s) {
		return old
	}
	b.states.Add(s.ID, s)
	return s
}

// newerState reports whether a is a newer state than b. A missing timer is newest, then the higher
// activation. Within an activation a timer is active, then inactive or paused, then deleted. After
// that the higher version is newer. When a stretch began does not tell, because it is of the clock of
// one of several database nodes.
func newerState(a, b timer.State) bool {
	if a.Exists() != b.Exists() {
		return b.Exists()
	}
	return cmp.Or(
		cmp.Compare(a.ActiveEpoch, b.ActiveEpoch),
		cmp.Compare(statusOrder(a.Status), statusOrder(b.Status)),
		cmp.Compare(a.Version, b.Version),
	) > 0
}

func statusOrder(s timer.Status) int {
	switch s {
	case timer.StatusActive:
		return 0
	case timer.StatusInactive, timer.StatusPaused:
		return 1
	case timer.StatusDeleted:
	}
	return 2 //nolint:mnd // deleted is last
}
