package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is a store in memory. It is safe for concurrent use.
type Store struct {
	now          func() time.Time
	ids          *timer.IDs
	maxEditFires int

	mu       sync.Mutex
	apps     map[string]*store.App
	timers   map[timer.ID]*row
	rows     []*row // all timers, in order of creation
	names    map[nameKey]*row
	keys     map[nameKey]*key
	once     map[absentKey]absentValue
	changes  []change // in order of seq
	purgedMS int64    // outcomes that finished before may be removed
	lastSeq  int64
	expandMS int64 // no timer is due for expansion before it

	calendars map[nameKey]*store.CalendarVersion
	backfills []*backfill // in order of creation
	jobs      map[timer.ID]*job
	zones     zones

	minutes  map[int64]*slicing.MinuteCount
	slices   map[int64][]*slice // by minute, then bucket
	cursor   int64              // 0: not set
	fires    map[timer.FireID]*timer.Fire
	byMinute map[int64]map[timer.FireID]*timer.Fire
	sessions map[timer.ID]*session
	// live has the alive sessions, and some that have ended since the last read, by id.
	live     []*session
	outcomes map[timer.ID][]timer.Outcome // by timer, in order of recording
	ended    map[timer.FireID]timer.ID    // finished fires, with the session that recorded each
	attempts map[timer.FireID][]timer.Attempt

	bySession     map[timer.ID][]timer.Outcome // the same outcomes, until they are published
	eventPosition map[timer.ID]*eventPosition
	signing       map[timer.ID]*store.SigningKey
	keysByID      map[string]*store.APIKey
	endedSignIns  map[person]int64 // the instants, in ms

	audit        []store.AuditEntry // in order of Seq
	auditSeq     int64
	auditAcked   int64 // position of the feed
	auditLeaseMS int64
}

var _ store.Store = (*Store)(nil)

// New returns an empty store whose clock is now.
func New(now func() time.Time) *Store {
	return &Store{
		now:          now,
		maxEditFires: DefaultMaxEditFires,
		ids:          timer.NewIDs(now),
		apps:         make(map[string]*store.App),
		timers:       make(map[timer.ID]*row),
		names:        make(map[nameKey]*row),
		keys: make(
			map[nameKey]*key,
		),
		expandMS:  timer.NeverMS,
		calendars: make(map[nameKey]*store.CalendarVersion),
		jobs:      make(map[timer.ID]*job),
		minutes:   make(map[int64]*slicing.MinuteCount),
		slices:    make(map[int64][]*slice),
		fires: make(
			map[timer.FireID]*timer.Fire,
		),
		byMinute: make(map[int64]map[timer.FireID]*timer.Fire),
		sessions: make(map[timer.ID]*session),
		outcomes: make(
			map[timer.ID][]timer.Outcome,
		),
		ended:    make(map[timer.FireID]timer.ID),
		attempts: make(map[timer.FireID][]timer.Attempt),
		bySession: make(
			map[timer.ID][]timer.Outcome,
		),
		eventPosition: make(map[timer.ID]*eventPosition),
		signing:       make(map[timer.ID]*store.SigningKey),
		keysByID:      make(map[string]*store.APIKey),
		endedSignIns:  make(map[person]int64),
		zones: zones{
			rules:     make(map[string]map[string]string),
			processes: make(map[timer.ID]*process),
		},
	}
}

// lock begins a call. The caller runs unlock at its end.
func (s *Store) lock() (unlock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// lockToWrite is lock for a call that may be a dry run, which cannot be rolled back here.
func (s *Store) lockToWrite(ctx context.Context) (unlock func()) {
	if store.IsDryRun(ctx) {
		panic("memstore has no dry runs")
	}
	return s.lock()
}

func (s *Store) nowMS() int64 { return s.now().UnixMilli() }

// Now returns the store's clock, to the millisecond.
func (s *Store) Now(context.Context) (time.Time, error) { return time.UnixMilli(s.nowMS()), nil }

// Ping always succeeds.
func (*Store) Ping(context.Context) error { return nil }

// Close does nothing.
func (*Store) Close() error { return nil }
