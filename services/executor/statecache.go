package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxCachedStates      = 200_000
	maxCachedDefinitions = 50_000
)

// stateCache is what this process knows of timers. Definitions are immutable and kept for as long as
// there is room. States change: what the book says of one is true as of the last look into the
// change log, and may be used while that is fresh.
type stateCache struct {
	store Store
	defs  *lru.Cache[store.VersionKey, *cachedDefinition]

	mu          sync.Mutex
	states      *lru.Cache[timer.ID, timer.State]
	polledAt    time.Time      // when the last successful look into the change log was sent
	generation  int            // counts how often the states were dropped
	appliedApps map[int64]bool // entries of whole apps that were applied, as far back as looks go
}

// cachedDefinition is a definition, and what is made of it once for all its fires.
type cachedDefinition struct {
	timer.Definition

	endpoint string // of its target, where that is one
}

func newStateCache(st Store) (*stateCache, error) {
	defs, err := lru.New[store.VersionKey, *cachedDefinition](maxCachedDefinitions)
	if err != nil {
		return nil, fmt.Errorf("making the cache of definitions: %w", err)
	}
	states, err := lru.New[timer.ID, timer.State](maxCachedStates)
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
	// maxStateAgeAtCall is how old a timer's state may be when a call starts (P5: a change reaches every
	// executor within a second).
	maxStateAgeAtCall = time.Second
	// maxStateAgeAtDecision is how old it may be when a call is decided: the rest is for what comes between that
	// and the request.
	maxStateAgeAtDecision = 900 * time.Millisecond
)

// state returns what the book says of a timer, and the time as of which it is true, if that may be
// relied on.
func (b *stateCache) state(id timer.ID) (s timer.State, asOf time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok = b.states.Get(id)
	return s, b.polledAt, ok && time.Since(b.polledAt) < maxStateAgeAtDecision
}

// load reads what the book does not know of the timers of these entries: two statements for a
// batch.
func (b *stateCache) load(ctx context.Context, es []*claimedFire) error {
	var ids []timer.ID
	var keys []store.VersionKey
	seen := make(map[timer.ID]bool, len(es))
	requested := make(map[store.VersionKey]bool, len(es))
	for _, e := range es {
		if id := e.fire.Timer; !seen[id] {
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
		if state, ok := b.states.Peek(e.fire.Timer); ok {
			e.fire.Version, _ = currentVersion(&e.fire, &state)
		}
		k := versionKey(e)
		if d, ok := b.defs.Get(k); ok {
			e.def, e.endpoint = &d.Definition, d.endpoint
		} else if !requested[k] {
			requested[k] = true
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	defs, err := b.store.Definitions(ctx, keys)
	if err != nil {
		return fmt.Errorf("reading definitions: %w", err)
	}
	read := make(map[store.VersionKey]*cachedDefinition, len(defs))
	for _, e := range es {
		k := versionKey(e)
		d, ok := defs[k]
		if e.def != nil || !ok {
			continue
		}
		if read[k] == nil {
			read[k] = &cachedDefinition{Definition: d}
			if !d.Several() {
				read[k].endpoint = endpointOf(e.fire.AppID, &d.Target)
			}
			b.defs.Add(k, read[k])
		}
		e.def, e.endpoint = &read[k].Definition, read[k].endpoint
	}
	return nil
}

// read asks the store for states and enters them; one that does not exist is entered as such.
// States that were dropped meanwhile stay so: what was read may be from before the freeze that they
// were dropped for, which nothing in a state tells.
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

// apply enters what the change log said, of timers that the book knows; the others are read when
// they are needed. It returns the apps of entries that it had not seen: each entry comes again with
// every look, for as long as looks go back.
func (b *stateCache) apply(changes []store.Change) (appliedApps []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		switch {
		case c.AppID != 0 && !b.appliedApps[c.Seq]:
			b.appliedApps[c.Seq] = true
			appliedApps = append(appliedApps, c.AppID)
		case c.AppID == 0 && b.states.Contains(c.State.ID):
			b.put(c.State)
		}
	}
	if len(
		appliedApps,
	) > 0 { // a freeze: rare, and which timers are the app's the book does not know
		b.purge()
	}
	return appliedApps
}

// pruneAppChanges says that no look goes back to this entry of the change log, or further.
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

// refreshed notes a look into the change log that was sent at the given time and has been applied.
func (b *stateCache) refreshed(sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.polledAt) {
		b.polledAt = sent
	}
}

// cached returns those of the timers that the book has a state of.
func (b *stateCache) cached(ids []timer.ID) []timer.ID {
	var cachedDefinition []timer.ID
	for _, id := range ids {
		if b.states.Contains(id) {
			cachedDefinition = append(cachedDefinition, id)
		}
	}
	return cachedDefinition
}

// put keeps the later of two states: reads that overlap may come back in any order.
func (b *stateCache) put(s timer.State) timer.State {
	if old, ok := b.states.Peek(s.ID); ok && newerState(old, s) {
		return old
	}
	b.states.Add(s.ID, s)
	return s
}

// newerState tells whether a is a later state than b. A timer's states are ordered: gone comes after
// all, then activations count up, and within one activation it is active, then inactive or paused,
// then deleted, and versions count up.
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
	default:
		return 2 //nolint:mnd // deleted is last
	}
}

func versionKey(e *claimedFire) store.VersionKey {
	return store.VersionKey{Timer: e.fire.Timer, Version: e.fire.Version}
}
