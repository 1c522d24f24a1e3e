package migrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is what a migrator needs of the store.
type Store interface {
	store.Expander
	store.Minutes
	store.Housekeeping
}

// Dispatcher brings committed fires on their way.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options of a migrator. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Dispatch Dispatcher
	Plan     store.Planner
	Counts   *slicing.Counts // those that Plan uses
	Now      func() time.Time

	Step1     time.Duration // the farthest that Plan expands; default 60 min
	Workers   int           // expansions at once; default 2
	Batch     int           // timers per expansion; default 100, at most 300 fires each
	Every     time.Duration // between looks when there is nothing to do; default 500 ms
	Retention time.Duration // of outcomes and attempts; default 7 days
	KeepEvery time.Duration // between housekeepings; default 10 min

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultWorkers   = 2
	defaultBatch     = 100
	defaultEvery     = 500 * time.Millisecond
	defaultRetention = 7 * 24 * time.Hour
	defaultKeepEvery = 10 * time.Minute
)

func (o *Options) defaults() {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.Step1, expansion.DefaultStep1},
		{&o.Every, defaultEvery},
		{&o.Retention, defaultRetention},
		{&o.KeepEvery, defaultKeepEvery},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
}

func (o *Options) validate() error {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, fmt.Errorf("migrator: %s is missing", name))
		}
	}
	need("Store", o.Store == nil)
	need("Dispatch", o.Dispatch == nil)
	need("Plan", o.Plan == nil)
	need("Counts", o.Counts == nil)
	need("Now", o.Now == nil)
	need("Registerer", o.Registerer == nil)
	return errors.Join(errs...)
}
