package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is what an executor needs of the store.
type Store interface {
	store.Fires
	store.Sessions
	Record(ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt) (lost []timer.FireID, err error)
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	Definitions(ctx context.Context, keys []store.VersionKey) (map[store.VersionKey]timer.Definition, error)
	Changes(ctx context.Context, after int64, limit int) ([]store.Change, error)
	LastChange(ctx context.Context) (int64, error)
}

// Bus is what an executor needs of the bus.
type Bus interface {
	bus.Publisher
	bus.Subscriber
}

// Dispatcher brings fires that were given back on their way again.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
	Publish(ctx context.Context, fires []timer.Fire) error
}

// Options of an executor. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Bus      Bus
	Dispatch Dispatcher
	Callers  map[timer.TargetKind]callback.Caller
	Clock    *clock.Clock
	Counts   *slicing.Counts
	IDs      *timer.IDs
	Name     string // of the process, for people

	MaxHands     int           // fires held at once; default 250,000
	MaxCalls     int           // callbacks at once; default 512
	Prefetch     int           // tasks that wait in the consumer, per partition; default 200
	Step2        time.Duration // how often the change log is polled; default 500 ms
	DrainTimeout time.Duration // for calls in flight at a stop; default 10 s
	NoEvents     bool          // publish nothing on the outcomes topic

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxHands = 250_000
	defaultMaxCalls = 512
	defaultPrefetch = 200
	defaultStep2    = 500 * time.Millisecond
	defaultDrain    = 10 * time.Second
)

func (o *Options) defaults() {
	orInt(&o.MaxHands, defaultMaxHands)
	orInt(&o.MaxCalls, defaultMaxCalls)
	orInt(&o.Prefetch, defaultPrefetch)
	if o.Step2 == 0 {
		o.Step2 = defaultStep2
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = defaultDrain
	}
}

func orInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func (o *Options) validate() error {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, fmt.Errorf("executor: %s is missing", name))
		}
	}
	need("Store", o.Store == nil)
	need("Bus", o.Bus == nil)
	need("Dispatch", o.Dispatch == nil)
	need("Callers", len(o.Callers) == 0)
	need("Clock", o.Clock == nil)
	need("Counts", o.Counts == nil)
	need("IDs", o.IDs == nil)
	need("Registerer", o.Registerer == nil)
	if o.MaxHands < 0 || o.MaxCalls < 0 || o.Prefetch < 0 {
		errs = append(errs, errors.New("executor: MaxHands, MaxCalls and Prefetch are not negative"))
	}
	return errors.Join(errs...)
}
