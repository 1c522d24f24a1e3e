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
	bookStates      = 200_000
	bookDefinitions = 50_000
)

// book is what this process knows of timers. Definitions are immutable and kept for as long as
// there is room. States change: what the book says of one is true as of the last look into the
// change log, and may be used while that is fresh.
type book struct {
	store Store
	defs  *lru.Cache[store.VersionKey, *known]

	mu     sync.Mutex
	states *lru.Cache[timer.ID, timer.State]
	looked time.Time      // when the last successful look into the change log was sent
	era    int            // counts how often the states were dropped
	apps   map[int64]bool // entries of whole apps that were applied, as far back as looks go
}

// known is a definition, and what is made of it once for all its fires.
type known struct {
	timer.Definition

	endpoint string // of its target, where that is one
}

func newBook(st Store) (*book, error) {
	defs, err := lru.New[store.VersionKey, *known](bookDefinitions)
	if err != nil {
		return nil, fmt.Errorf("making the cache of definitions: %w", err)
	}
	states, err := lru.New[timer.ID, timer.State](bookStates)
	if err != nil {
		return nil, fmt.Errorf("making the cache of states: %w", err)
	}
	return &book{store: st, defs: defs, states: states, apps: make(map[int64]bool)}, nil
}

const (
	// noticed is how old a timer's state may be when a call starts (P5: a change reaches every
	// executor within a second).
	noticed = time.Second
	// freshFor is how old it may be when a call is decided: the rest is for what comes between that
	// and the request.
	freshFor = 900 * time.Millisecond
)

// state returns what the book says of a timer, and the time as of which it is true, if that may be
// relied on.
func (b *book) state(id timer.ID) (s timer.State, asOf time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok = b.states.Get(id)
	return s, b.looked, ok && time.Since(b.looked) < freshFor
}

// learn reads what the book does not know of the timers of these entries: two statements for a
// batch.
func (b *book) learn(ctx context.Context, es []*held) error {
	var ids []timer.ID
	var keys []store.VersionKey
	seen := make(map[timer.ID]bool, len(es))
	asked := make(map[store.VersionKey]bool, len(es))
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
			e.fire.Version, _ = presentVersion(&e.fire, &state)
		}
		k := versionOf(e)
		if d, ok := b.defs.Get(k); ok {
			e.def, e.endpoint = &d.Definition, d.endpoint
		} else if !asked[k] {
			asked[k] = true
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
	read := make(map[store.VersionKey]*known, len(defs))
	for _, e := range es {
		k := versionOf(e)
		d, ok := defs[k]
		if e.def != nil || !ok {
			continue
		}
		if read[k] == nil {
			read[k] = &known{Definition: d}
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
func (b *book) read(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	b.mu.Lock()
	era := b.era
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
		if out[i] = s; b.era == era {
			out[i] = b.enter(s)
		}
	}
	return out, nil
}

// apply enters what the change log said, of timers that the book knows; the others are read when
// they are needed. It returns the apps of entries that it had not seen: each entry comes again with
// every look, for as long as looks go back.
func (b *book) apply(changes []store.Change) (apps []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		switch {
		case c.AppID != 0 && !b.apps[c.Seq]:
			b.apps[c.Seq] = true
			apps = append(apps, c.AppID)
		case c.AppID == 0 && b.states.Contains(c.State.ID):
			b.enter(c.State)
		}
	}
	if len(apps) > 0 { // a freeze: rare, and which timers are the app's the book does not know
		b.drop()
	}
	return apps
}

// passed says that no look goes back to this entry of the change log, or further.
func (b *book) passed(seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.apps {
		if s <= seq {
			delete(b.apps, s)
		}
	}
}

// forget drops all states.
func (b *book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
}

func (b *book) drop() {
	b.states.Purge()
	b.era++
}

// fresh notes a look into the change log that was sent at the given time and has been applied.
func (b *book) fresh(sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.looked) {
		b.looked = sent
	}
}

// knows returns those of the timers that the book has a state of.
func (b *book) knows(ids []timer.ID) []timer.ID {
	var known []timer.ID
	for _, id := range ids {
		if b.states.Contains(id) {
			known = append(known, id)
		}
	}
	return known
}

// enter keeps the later of two states: reads that overlap may come back in any order.
func (b *book) enter(s timer.State) timer.State {
	if old, ok := b.states.Peek(s.ID); ok && later(old, s) {
		return old
	}
	b.states.Add(s.ID, s)
	return s
}

// later tells whether a is a later state than b. A timer's states are ordered: gone comes after
// all, then activations count up, and within one activation it is active, then inactive or paused,
// then deleted, and versions count up.
func later(a, b timer.State) bool {
	if a.Exists() != b.Exists() {
		return b.Exists()
	}
	if a.ActiveEpoch != b.ActiveEpoch {
		return a.ActiveEpoch > b.ActiveEpoch
	}
	if x, y := order(a.Status), order(b.Status); x != y {
		return x > y
	}
	return a.Version > b.Version
}

func order(s timer.Status) int {
	switch s {
	case timer.StatusActive:
		return 0
	case timer.StatusInactive, timer.StatusPaused:
		return 1
	default:
		return 2 //nolint:mnd // deleted is last
	}
}

func versionOf(e *held) store.VersionKey {
	return store.VersionKey{Timer: e.fire.Timer, Version: e.fire.Version}
}
