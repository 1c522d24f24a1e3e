package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is the part of the store that a scheduler uses.
type Store interface {
	store.SliceClaims
	store.Sessions
	store.AppsByID
	store.AllTimers
	explain.Store
	eventStore
}

// eventStore is the outbox of the sessions that ended.
type eventStore interface {
	store.OutcomeEvents
	store.OrphanedEvents
	store.AuditFeed
}

// Options of a scheduler. The zero value of a setting is its default.
type Options struct {
	Store Store
	Bus   bus.Publisher
	IDs   *timer.IDs
	Name  string           // name of the process, shown to people
	Now   func() time.Time // the store's clock

	Tick time.Duration // default 1 s
	// Ahead is how long before its start a minute is dispatched; default 25 s. That allows for five
	// leases in a row, in case some triggers are frozen.
	Ahead   time.Duration
	Lease   time.Duration // of a slice, until its trigger renews it; default 5 s
	CatchUp int           // past minutes dispatched per tick; default 30
	// MissingEvery is the time between searches for missing fires; default 1 min.
	MissingEvery time.Duration
	// AuditDelay is how old entries of the audit trail are published; default store.AuditDelay.
	AuditDelay time.Duration
	// NoAuditTopic is for a bus in the memory of the process, of which nobody could receive the audit
	// trail.
	NoAuditTopic bool

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultTick    = time.Second
	defaultAhead   = 25 * time.Second
	defaultLease   = 5 * time.Second
	defaultCatchUp = 30

	defaultMissingEvery = time.Minute
)

func (o *Options) defaults() {
	options.Default(&o.Tick, defaultTick)
	options.Default(&o.Ahead, defaultAhead)
	options.Default(&o.Lease, defaultLease)
	options.Default(&o.CatchUp, defaultCatchUp)
	options.Default(&o.AuditDelay, store.AuditDelay)
	options.Default(&o.MissingEvery, defaultMissingEvery)
}

func (o *Options) validate() error {
	c := options.Of("scheduler")
	c.Need("Store", o.Store == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("IDs", o.IDs == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Registerer", o.Registerer == nil)
	c.Refuse(o.Ahead >= time.Minute, "Ahead must be less than a minute")
	return c.Err()
}
