package signin

import (
	"context"
	"sync"
	"time"
)

// How long it is kept in memory since when sessions of a person count. So an end by another process
// counts within endTTL, or within endStaleTTL while the store is slow or unavailable. After that
// nobody is admitted whose sessions may have been ended.
const (
	endTTL      = time.Second
	endStaleTTL = 5 * time.Second
	maxEnds     = 4096 // persons
)

// Ends knows since when sessions of persons count, from the store. It keeps that for a moment, so a
// page that refreshes costs a query a second at most. It is safe for concurrent use.
type Ends struct {
	read func(ctx context.Context, subject string) (beforeMS int64, err error)
	now  func() time.Time // monotonic

	mu         sync.Mutex
	generation int                   // grows by Forget: what was read before is not kept
	known      map[string]*endsEntry // by subject
}

type endsEntry struct {
	before     time.Time
	readAt     time.Time
	refreshing bool // a read is in progress
}

// NewEnds returns what knows the ends that read finds in the store. read returns 0 for a person
// whose sessions nobody has ended.
func NewEnds(read func(ctx context.Context, subject string) (int64, error)) *Ends {
	return &Ends{read: read, now: time.Now, known: make(map[string]*endsEntry)}
}

// Before returns the instant before which sessions of a person are ended; the zero time: none are.
func (e *Ends) Before(ctx context.Context, subject string) (time.Time, error) {
	e.mu.Lock()
	now, had := e.now(), e.known[subject]
	if had != nil {
		age := now.Sub(had.readAt)
		if age < endTTL || had.refreshing && age < endStaleTTL {
			defer e.mu.Unlock()
			return had.before, nil
		}
		had.refreshing = true
	}
	e.mu.Unlock()
	before, err := e.Now(ctx, subject)
	if had == nil {
		return before, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	had.refreshing = false
	if err != nil && now.Sub(had.readAt) < endStaleTTL {
		return had.before, nil
	}
	return before, err
}

// Now is Before as the store knows it at this instant, for a sign-in.
func (e *Ends) Now(ctx context.Context, subject string) (time.Time, error) {
	at := e.now()
	e.mu.Lock()
	generation := e.generation
	e.mu.Unlock()
	ms, err := e.read(ctx, subject)
	if err != nil {
		return time.Time{}, err
	}
	var before time.Time
	if ms != 0 {
		before = time.UnixMilli(ms)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if generation == e.generation {
		e.makeRoom(at)
		e.known[subject] = &endsEntry{before: before, readAt: at}
	}
	return before, nil
}

// Forget drops what is kept of a person, because this process has ended their sessions.
func (e *Ends) Forget(subject string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.generation++
	delete(e.known, subject)
}

// makeRoom drops what is too old, and then everything: that costs each person one query.
func (e *Ends) makeRoom(now time.Time) {
	if len(e.known) < maxEnds {
		return
	}
	for subject, had := range e.known {
		if now.Sub(had.readAt) >= endTTL {
			delete(e.known, subject)
		}
	}
	if len(e.known) >= maxEnds {
		clear(e.known)
	}
}
