package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is what a scheduler needs of the store.
type Store interface { //nolint:interfacebloat // minutes, slices, sessions and the sweep: a scheduler does all of it
	store.Sessions
	FreezeMinute(ctx context.Context, minute int64) (buckets int32, err error)
	ClaimSlices(ctx context.Context, minute int64, buckets int32, lease time.Duration, limit int) ([]store.SliceClaim, error)
	Cursor(ctx context.Context, minute int64) (int64, error)
	AdvanceCursor(ctx context.Context, limit int64) (int64, error)
	SliceBacklog(ctx context.Context) (int64, error)
	Overdue(ctx context.Context, q store.OverdueQuery) ([]timer.Fire, error)
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
	OldestOpen(ctx context.Context) (int64, error)
}

// Dispatcher publishes tasks.
type Dispatcher interface {
	Publish(ctx context.Context, fires []timer.Fire) error
}

// Options of a scheduler. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Bus      bus.Publisher
	Dispatch Dispatcher
	IDs      *timer.IDs
	Name     string           // of the process, for people
	Now      func() time.Time // the store's clock

	Tick       time.Duration // default 1 s
	Ahead      time.Duration // how long before its start a minute is handed out; default 15 s
	Lease      time.Duration // of a slice until its trigger renews it; default 5 s
	CatchUp    int           // past minutes handed out per tick; default 30
	SweepEvery time.Duration // default 1 s
	SweepLimit int           // fires per sweep; default 5,000

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultTick       = time.Second
	defaultAhead      = 15 * time.Second
	defaultLease      = 5 * time.Second
	defaultCatchUp    = 30
	defaultSweepEvery = time.Second
	defaultSweepLimit = 5000
)

func (o *Options) defaults() {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.Tick, defaultTick}, {&o.Ahead, defaultAhead}, {&o.Lease, defaultLease}, {&o.SweepEvery, defaultSweepEvery}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.CatchUp == 0 {
		o.CatchUp = defaultCatchUp
	}
	if o.SweepLimit == 0 {
		o.SweepLimit = defaultSweepLimit
	}
}

func (o *Options) validate() error {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, fmt.Errorf("scheduler: %s is missing", name))
		}
	}
	need("Store", o.Store == nil)
	need("Bus", o.Bus == nil)
	need("Dispatch", o.Dispatch == nil)
	need("IDs", o.IDs == nil)
	need("Now", o.Now == nil)
	need("Registerer", o.Registerer == nil)
	if o.Ahead >= time.Minute {
		errs = append(errs, errors.New("scheduler: Ahead is less than a minute"))
	}
	return errors.Join(errs...)
}
