package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	minCachedStates      = 200_000 // or one for each fire in flight, if they are more
	maxCachedDefinitions = 50_000
)

// versionStore reads the states and definitions of timers, and their changes.
type versionStore interface {
	store.States
	store.ChangeLog
	store.Definitions
	store.Versions
}

// stateCache is what this process knows of timers. Definitions are immutable and evicted only for
// space. States change: a cached state is true as of the last poll of the change log and usable
// only while that poll is recent.
type stateCache struct {
	store versionStore
	defs  *lru.Cache[store.VersionKey, *cachedDefinition]

	mu         sync.Mutex
	states     *lru.Cache[timer.ID, timer.State]
	polledAt   time.Time // when the last successful poll of the change log was sent
	generation int       // counts purges of the states
	// change log entries of whole apps that were applied, within the poll overlap
	appliedApps map[int64]bool
}

// cachedDefinition is a definition with the values derived from it once for all its fires.
type cachedDefinition struct {
	timer.Definition

	endpoint string // of its target; empty if it has several targets
}

func newStateCache(st versionStore, maxInflight int) (*stateCache, error) {
	defs, err := lru.New[store.VersionKey, *cachedDefinition](maxCachedDefinitions)
	if err != nil {
		return nil, fmt.Errorf("making the cache of definitions: %w", err)
	}
	states, err := lru.New[timer.ID, timer.State](max(minCachedStates, maxInflight))
	if err != nil {
		return nil, fmt.Errorf("making the cache of states: %w", err)
	}
	return &stateCache{
		store:       st,
		defs:        defs,
		states:      states,
		appliedApps: make(map[int64]bool),
	}, nil
}

const (
	// maxStateAgeAtCall is the maximum age of a timer's state when a call starts (P5: a change
	// reaches every executor within a second).
	maxStateAgeAtCall = time.Second
	// callMargin is for the steps between the decision and the request.
	callMargin = 100 * time.Millisecond
	// maxStateAgeAtDecision is the maximum age when a call is decided.
	maxStateAgeAtDecision = maxStateAgeAtCall - callMargin
)

// current reports whether a version is the present one of a timer that is not deleted, as far as
// the cache knows.
func (b *stateCache) current(id timer.ID, version int32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.states.Peek(id)
	return !ok || s.Status != timer.StatusDeleted && s.Version <= version
}

// state returns a timer's cached state and the time as of which it is true. ok is false unless both
// are recent enough for a decision.
func (b *stateCache) state(id timer.ID) (s timer.State, asOf time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok = b.states.Get(id)
	return s, b.polledAt, ok && time.Since(b.polledAt) < maxStateAgeAtDecision
}

// load reads the missing states and definitions of the entries' timers, in two statements per
// batch.
func (b *stateCache) load(ctx context.Context, es []*inflight.Entry) error {
	var ids []timer.ID
	var keys []definitionQuestion
	seen := make(map[timer.ID]bool, len(es))
	requested := make(map[store.VersionKey]bool, len(es))
	for _, e := range es {
		if id := e.Fire.Timer; !seen[id] {
			seen[id] = true
			if !b.states.Contains(id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 0 {
		if _, err := b.read(ctx, ids); err != nil {
			return err
		}
	}
	for _, e := range es {
		if state, ok := b.states.Peek(e.Fire.Timer); ok {
			e.Fire.Version, _ = currentVersion(&e.Fire, &state)
		}
		k := versionKey(e)
		if d, ok := b.defs.Get(k); ok {
			e.Def, e.Endpoint = &d.Definition, d.endpoint
		} else if !requested[k] {
			requested[k] = true
			keys = append(keys, definitionQuestion{k, e.Fire.AppID})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	read, err := b.readDefinitions(ctx, keys)
	if err != nil {
		return err
	}
	found := make(map[store.VersionKey]*cachedDefinition, len(read))
	for i, q := range keys {
		found[q.key] = read[i]
	}
	for _, e := range es {
		if d := found[versionKey(e)]; e.Def == nil && d != nil {
			e.Def, e.Endpoint = &d.Definition, d.endpoint
		}
	}
	return nil
}

// readDefinitions reads definitions from the store and caches them. A missing one is nil.
func (b *stateCache) readDefinitions(
	ctx context.Context,
	questions []definitionQuestion,
) ([]*cachedDefinition, error) {
	keys := make([]store.VersionKey, 0, len(questions))
	read := make(map[store.VersionKey]*cachedDefinition, len(questions))
	for _, q := range questions {
		if _, twice := read[q.key]; !twice {
			read[q.key] = nil
			keys = append(keys, q.key)
		}
	}
	defs, err := b.store.Definitions(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading definitions: %w", err)
	}
	out := make([]*cachedDefinition, len(questions))
	for i, q := range questions {
		if d, ok := defs[q.key]; ok && read[q.key] == nil {
			read[q.key] = &cachedDefinition{Definition: d}
			if !d.Several() {
				read[q.key].endpoint = endpointOf(q.app, &d.Target)
			}
			b.defs.Add(q.key, read[q.key])
		}
		out[i] = read[q.key]
	}
	return out, nil
}

// read reads states from the store and caches them, a missing timer as missing. If the states were
// purged meanwhile, it caches nothing. The read may predate the change of an app that caused the
// purge, and a state does not show that.
func (b *stateCache) read(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	b.mu.Lock()
	generation := b.generation
	b.mu.Unlock()
	found, err := b.store.States(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading states: %w", err)
	}
	byID := make(map[timer.ID]timer.State, len(found))
	for _, s := range found {
		byID[s.ID] = s
	}
	out := make([]timer.State, len(ids))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, id := range ids {
		s, ok := byID[id]
		if !ok {
			s = timer.State{ID: id}
		}
		if out[i] = s; b.generation == generation {
			out[i] = b.put(s)
		}
	}
	return out, nil
}

// apply applies change log entries to the cached states; other states are read when needed. It
// returns the apps named by entries that were not applied before, because overlapping polls return
// entries again.
func (b *stateCache) apply(changes []store.Change) (apps []int64) {
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
	if len(
		apps,
	) > 0 { // an app was frozen or changed, which is rare: the cache does not know the app's timers
		b.purge()
	}
	return apps
}

// pruneAppChanges forgets the app entries up to seq, which no later poll returns.
func (b *stateCache) pruneAppChanges(seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.appliedApps {
		if s <= seq {
			delete(b.appliedApps, s)
		}
	}
}

// reset drops all states.
func (b *stateCache) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.purge()
}

func (b *stateCache) purge() {
	b.states.Purge()
	b.generation++
}

// refreshed records that a poll of the change log, sent at the given time, has been applied.
func (b *stateCache) refreshed(sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.polledAt) {
		b.polledAt = sent
	}
}

// cached returns the timers whose state is cached.
func (b *stateCache) cached(ids []timer.ID) []timer.ID {
	var known []timer.ID
	for _, id := range ids {
		if b.states.Contains(id) {
			known = append(known, id)
		}
	}
	return known
}

// put keeps the newer of two states, because overlapping reads may return in any order.
func (b *stateCache) put(s timer.State) timer.State {
	if old, ok := b.states.Peek(s.ID); ok && newerState(old, s) {
		return old
	}
	b.states.Add(s.ID, s)
	return s
}

// newerState reports whether a is a newer state than b. A missing timer is newest, then the higher
// activation. Within an activation a timer is active, then inactive or paused, then deleted. After
// that the higher version is newer.
func newerState(a, b timer.State) bool {
	if a.Exists() != b.Exists() {
		return b.Exists()
	}
	if a.ActiveEpoch != b.ActiveEpoch {
		return a.ActiveEpoch > b.ActiveEpoch
	}
	if x, y := statusOrder(a.Status), statusOrder(b.Status); x != y {
		return x > y
	}
	return a.Version > b.Version
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

func versionKey(e *inflight.Entry) store.VersionKey {
	return store.VersionKey{Timer: e.Fire.Timer, Version: e.Fire.Version}
}
