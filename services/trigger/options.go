package trigger

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/window"
)

// Store is the part of the store that a trigger uses.
type Store interface {
	store.SliceLeases
	LoadSlice(
		ctx context.Context,
		minute int64,
		bucket int32,
		after store.Position,
		untilMS int64,
		limit int,
	) ([]timer.Fire, error)
}

// Dispatcher publishes tasks.
type Dispatcher interface {
	// Publish gets fires of one topic at a time.
	Publish(ctx context.Context, fires []timer.Fire) error
	PublishLow(ctx context.Context, fires []timer.Fire) error
}

// Options of a trigger. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Bus      bus.Subscriber
	Window   window.Window
	Dispatch Dispatcher
	Now      func() time.Time // the store's clock
	Holder   timer.ID         // identifies this process in leases; from timer.IDs

	MaxSlices    int           // concurrent slices; default 512
	DispatchLead time.Duration // how long before its run time a task is published; default 2 s
	Poll         time.Duration // interval of window polls; default 250 ms
	Lease        time.Duration // of a slice; default 5 s

	Tracer     *tracing.Tracer // nil: tracing is off
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxSlices = 512
	defaultPoll      = 250 * time.Millisecond
	defaultLease     = 5 * time.Second
)

func (o *Options) defaults() {
	options.Default(&o.MaxSlices, defaultMaxSlices)
	options.Default(&o.DispatchLead, dispatch.DefaultDispatchLead)
	options.Default(&o.Poll, defaultPoll)
	options.Default(&o.Lease, defaultLease)
}

func (o *Options) validate() error {
	c := options.Of("trigger")
	c.Need("Store", o.Store == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("Window", o.Window == nil)
	c.Need("Dispatch", o.Dispatch == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Holder", o.Holder == 0)
	c.Need("Registerer", o.Registerer == nil)
	return c.Err()
}
