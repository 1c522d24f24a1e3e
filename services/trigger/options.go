package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// Store is what a trigger needs of the store.
type Store interface {
	HoldSlice(ctx context.Context, c store.SliceClaim, holder timer.ID, lease time.Duration) (bool, error)
	RenewSlices(ctx context.Context, holder timer.ID, held []store.SliceClaim, lease time.Duration) (lost []store.SliceClaim, err error)
	FinishSlice(ctx context.Context, c store.SliceClaim) (bool, error)
	LoadSlice(ctx context.Context, minute int64, bucket int32, after store.Position, untilMS int64, limit int) ([]timer.Fire, error)
}

// Dispatcher publishes tasks.
type Dispatcher interface {
	Publish(ctx context.Context, fires []timer.Fire) error
}

// Options of a trigger. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Bus      bus.Subscriber
	Window   window.Window
	Dispatch Dispatcher
	Now      func() time.Time // the store's clock
	Holder   timer.ID         // names this process in leases; from timer.IDs

	MaxSlices int           // slices at once; default 512
	Lead      time.Duration // how far ahead tasks are published; default 2 s
	Poll      time.Duration // of the window; default 200 ms
	Lease     time.Duration // of a slice; default 5 s

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxSlices = 512
	defaultPoll      = 200 * time.Millisecond
	defaultLease     = 5 * time.Second
)

func (o *Options) defaults() {
	if o.MaxSlices == 0 {
		o.MaxSlices = defaultMaxSlices
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.Lead, dispatch.DefaultLead}, {&o.Poll, defaultPoll}, {&o.Lease, defaultLease}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
}

func (o *Options) validate() error {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, fmt.Errorf("trigger: %s is missing", name))
		}
	}
	need("Store", o.Store == nil)
	need("Bus", o.Bus == nil)
	need("Window", o.Window == nil)
	need("Dispatch", o.Dispatch == nil)
	need("Now", o.Now == nil)
	need("Holder", o.Holder == 0)
	need("Registerer", o.Registerer == nil)
	return errors.Join(errs...)
}
