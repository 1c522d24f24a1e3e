package migrator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/changes"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
)

// Store is the part of the store that a migrator uses.
type Store interface {
	store.Expander
	store.Minutes
	store.Housekeeping
	PurgeAudit(ctx context.Context, retention time.Duration) error
	JobStore
}

// JobStore is the part of the store that jobs use.
type JobStore interface {
	store.JobRunner
	changes.Store
	Search(ctx context.Context, q store.SearchQuery) (store.SearchPage, error)
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	Definitions(
		ctx context.Context,
		keys []store.VersionKey,
	) (map[store.VersionKey]*timer.Definition, error)
}

// Planner plans the fires of schedules and backfills.
type Planner interface {
	Plan(t *timer.Timer, nowMS int64) store.Plan
	PlanBackfill(
		t *timer.Timer,
		b *store.Backfill,
		nowMS int64,
	) (fires []timer.Fire, nextMS int64, err error)
}

// Dispatcher dispatches committed fires.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options of a migrator. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Dispatch Dispatcher
	Bus      bus.Publisher // for timers-changed
	Planner  Planner
	Counts   *slicing.Counts // the counts that Planner uses
	Now      func() time.Time

	ExpandAhead time.Duration // how far ahead Planner expands; default 60 min
	Workers     int           // concurrent expansions; default 2
	Batch       int           // timers per expansion; default 100
	JobPage     int           // timers of a job that are changed at once; default 500
	Every       time.Duration // between polls when there is nothing to do; default 500 ms
	Retention   time.Duration // of outcomes and attempts; default 7 days
	// AuditRetention is that of the audit trail; default 90 days.
	AuditRetention time.Duration
	// OneShotRetention is that of one-shots after their instant; 0: they stay.
	OneShotRetention time.Duration
	PurgeEvery       time.Duration // between purges; default 10 min
	GaugeEvery       time.Duration // between readings of the backlogs; default 5 s

	Tracer     *tracing.Tracer // nil: tracing is off
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultWorkers    = 2
	defaultBatch      = 100
	defaultJobPage    = store.MaxBatch
	defaultEvery      = 500 * time.Millisecond
	defaultRetention  = 7 * 24 * time.Hour
	defaultAuditKeep  = 90 * 24 * time.Hour
	defaultPurgeEvery = 10 * time.Minute
	defaultGaugeEvery = 5 * time.Second
)

func (o *Options) defaults() {
	options.Default(&o.Workers, defaultWorkers)
	options.Default(&o.Batch, defaultBatch)
	options.Default(&o.JobPage, defaultJobPage)
	options.Default(&o.ExpandAhead, expansion.DefaultExpandAhead)
	options.Default(&o.Every, defaultEvery)
	options.Default(&o.Retention, defaultRetention)
	options.Default(&o.AuditRetention, defaultAuditKeep)
	options.Default(&o.PurgeEvery, defaultPurgeEvery)
	options.Default(&o.GaugeEvery, defaultGaugeEvery)
}

func (o *Options) validate() error {
	c := options.Of("migrator")
	c.Need("Store", o.Store == nil)
	c.Need("Dispatch", o.Dispatch == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("Planner", o.Planner == nil)
	c.Need("Counts", o.Counts == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Registerer", o.Registerer == nil)
	return c.Err()
}
