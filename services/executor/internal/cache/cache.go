package cache

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// MaxAgeAtCall is the maximum age of a timer's state when a call starts (P5: a change reaches
	// every executor within a second).
	MaxAgeAtCall = time.Second
	// callMargin is for the steps between the decision and the request.
	callMargin = 100 * time.Millisecond
	// MaxAgeAtDecision is the maximum age when a call is decided.
	MaxAgeAtDecision = MaxAgeAtCall - callMargin
)

// Store is the part of the store that is cached.
type Store interface {
	store.States
	store.ChangeLog
	store.Definitions
	store.AppsByID
	Inactivities(ctx context.Context, ids []timer.ID) (map[timer.ID][]timer.Inactivity, error)
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
	Backfill(ctx context.Context, app string, id timer.ID) (store.Backfill, error)
	SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error)
}

// Options of a cache. Its functions must not block.
type Options struct {
	Store     Store
	Clock     *clock.Clock
	SetLimits func(app string, s limit.Settings) // is told the limits of each app that is read
	Egress    *egress.Policy                     // of the deployment; nil: the caller's own
	Opener    signing.Opener                     // decrypts signing keys; nil: no encryption keys

	// Written returns when the last write to the store that succeeded was sent; nil: all succeed.
	Written      func() time.Time
	PollInterval time.Duration // between polls of the change log
	MaxInflight  int           // fires in flight, which may all be of different timers

	// Changed is told the states of timers that have changed, perhaps repeatedly or late. They were
	// read after sent.
	Changed func(s *timer.State, sent time.Time)
	// Logged is told the same of the entries of the change log.
	Logged func(s *timer.State)
	Missed func() // entries of the change log may have been purged unread

	Logger zerolog.Logger
}

// Cache is what an executor knows of the timers and apps whose fires it calls.
type Cache struct {
	Timers       *Timers
	Inactivities *Inactivities
	Calendars    *Calendars
	Backfills    *Backfills
	Apps         *Apps

	opts    Options
	changed chan timer.ID // timers with a change notification
}

// New returns an empty cache, which is fresh only while it runs.
func New(o Options) *Cache {
	return &Cache{
		Timers:       newTimers(o.Store, o.Clock, o.MaxInflight),
		Inactivities: newInactivities(o.Store),
		Calendars:    newCalendars(o.Store),
		Backfills:    newBackfills(o.Store, o.Clock),
		Apps:         newApps(o),
		opts:         o,
		changed:      make(chan timer.ID, maxChangedTimers),
	}
}

// newLRU returns a cache of the values used last.
func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	return newEvictingLRU[K, V](size, nil)
}

// newEvictingLRU is newLRU with a function that is called with each value that leaves the cache.
func newEvictingLRU[K comparable, V any](size int, evicted func(K, V)) *lru.Cache[K, V] {
	c, err := lru.NewWithEvict(size, evicted)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return c
}

// Run keeps the cache fresh until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	var g sync.WaitGroup
	g.Go(func() { c.pollChangeLog(ctx) })
	g.Go(func() { c.readChanged(ctx) })
	g.Wait()
}
