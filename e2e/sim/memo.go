package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// memo is the store with an exact memory of what is asked of it all the time and changes seldom: most of a simulation's time would
// else go into asking a database for nothing new. It is asked and told under one lock.
type memo struct {
	store.Store

	mu       sync.Mutex
	sessions map[timer.ID]*store.Session // the live ones; their renewals and loads are kept here only
	changes  map[changesKey][]store.Change
	cursor   *int64
	frozen   map[int64]int32
}

type changesKey struct {
	after int64
	limit int
}

func remember(s store.Store) *memo {
	return &memo{
		Store: s, sessions: make(map[timer.ID]*store.Session), changes: make(map[changesKey][]store.Change), frozen: make(map[int64]int32),
	}
}

func (m *memo) OpenSession(ctx context.Context, id timer.ID, kind store.SessionKind, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.Store.OpenSession(ctx, id, kind, name)
	if err == nil {
		m.sessions[id] = &store.Session{ID: id, Kind: kind, Name: name}
	}
	return err
}

func (m *memo) RenewSession(_ context.Context, id timer.ID, load store.Load) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil {
		return false, nil
	}
	s.Renewals, s.Load = s.Renewals+1, load
	return true, nil
}

func (m *memo) LiveSessions(context.Context) ([]store.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []store.Session
	for _, s := range m.sessions {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b store.Session) int { return int(a.ID - b.ID) })
	return all, nil
}

func (m *memo) EndSession(ctx context.Context, id timer.ID, seen int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[id]; s == nil || s.Renewals != seen {
		return false, nil
	}
	return true, m.close(ctx, id)
}

func (m *memo) CloseSession(ctx context.Context, id timer.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.close(ctx, id)
}

func (m *memo) close(ctx context.Context, id timer.ID) error {
	err := m.Store.CloseSession(ctx, id)
	if err == nil {
		delete(m.sessions, id)
	}
	return err
}

func (m *memo) Create(ctx context.Context, items []store.NewTimer, plan store.Planner) ([]store.Created, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.changes)
	return m.Store.Create(ctx, items, plan)
}

func (m *memo) SetStatus(ctx context.Context, items []store.StatusChange, plan store.Planner) ([]store.StatusChanged, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.changes)
	return m.Store.SetStatus(ctx, items, plan)
}

func (m *memo) Changes(ctx context.Context, after int64, limit int) ([]store.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := changesKey{after, limit}
	if known, ok := m.changes[k]; ok {
		return slices.Clone(known), nil
	}
	page, err := m.Store.Changes(ctx, after, limit)
	if err == nil {
		m.changes[k] = page
	}
	return slices.Clone(page), err
}

func (m *memo) Cursor(ctx context.Context, minute int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cursor != nil {
		return *m.cursor, nil
	}
	at, err := m.Store.Cursor(ctx, minute)
	if err == nil {
		m.cursor = &at
	}
	return at, err
}

func (m *memo) AdvanceCursor(ctx context.Context, limit int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor = nil
	return m.Store.AdvanceCursor(ctx, limit)
}

func (m *memo) FreezeMinute(ctx context.Context, minute int64) (int32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.frozen[minute]; ok {
		return n, nil
	}
	n, err := m.Store.FreezeMinute(ctx, minute)
	if err == nil {
		m.frozen[minute] = n
	}
	return n, err
}

func (m *memo) Keep(ctx context.Context, retention time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.changes)
	clear(m.frozen)
	m.cursor = nil
	return m.Store.Keep(ctx, retention)
}
