package executor

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
	"github.com/carillon-timer/carillon/services/executor/internal/intake"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
	"github.com/carillon-timer/carillon/services/executor/internal/record"
)

// Store is the part of the store that an executor uses.
type Store interface {
	fireStore
	store.Recorder
	store.OutcomeEvents
	cache.Store
	delivery.Store
	intake.Store
	order.Store
}

// fireStore claims, defers and releases open fires, and answers questions about them.
type fireStore interface {
	store.Claims
	store.Admissions
	store.Inactivities
	store.Versions
}

// Planner plans successors of fixed delays and the fires of a paused timer, and decides which late
// fires misfire policy fire_all runs.
type Planner interface {
	delivery.Planner
	order.Planner
	AmongLatest(
		f *timer.Fire,
		d *timer.Definition,
		calendars []timer.Calendar,
		b *expansion.Backlog,
		n int,
	) (bool, error)
}

// Bus is the part of the bus that an executor uses.
type Bus interface {
	bus.Publisher
	bus.Subscriber
}

// Options of an executor. The zero value of a setting is its default.
type Options struct {
	Store    Store
	Bus      Bus
	Dispatch record.Dispatcher
	Planner  Planner
	Caller   callback.Caller // handles every kind of target: callback.Callers
	Limits   limit.Admission
	Breakers *limit.Breakers
	Egress   *egress.Policy // of the deployment; nil: the caller's own
	Opener   signing.Opener // decrypts secrets; nil: there are no encryption keys
	// nil: receivers may not accept a fire and complete it later
	Tokens *callback.CompletionTokens
	Clock  *clock.Clock
	Counts *slicing.Counts
	IDs    *timer.IDs
	Name   string // name of the process, shown to people
	// PeerNotice takes notices of other processes, which come beside change notifications, and
	// reports whether a message is one. nil: there are none.
	PeerNotice func(m bus.Message) bool

	MaxInflight        int           // fires in flight; default 250,000
	MaxCalls           int           // concurrent callbacks; default 512
	Prefetch           int           // tasks waiting in the consumer per partition; default 200
	ChangePollInterval time.Duration // between polls of the change log; default 500 ms
	DrainTimeout       time.Duration // for calls in flight at a stop; default 10 s
	RecordTimeout      time.Duration // after DrainTimeout, to record what ended within it; default 2 s
	// PollAhead is how long before its run time a fire without a task is polled from the store; 0:
	// never. It must be shorter than the dispatch lead, by more than a task needs to be claimed.
	PollAhead time.Duration

	Tracer     *tracing.Tracer // nil: tracing is off
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxInflight        = 250_000
	defaultMaxCalls           = 512
	defaultPrefetch           = 200
	defaultChangePollInterval = 500 * time.Millisecond
	defaultDrain              = 10 * time.Second
	defaultRecord             = 2 * time.Second
)

func (o *Options) defaults() {
	options.Default(&o.MaxInflight, defaultMaxInflight)
	options.Default(&o.MaxCalls, defaultMaxCalls)
	options.Default(&o.Prefetch, defaultPrefetch)
	options.Default(&o.ChangePollInterval, defaultChangePollInterval)
	options.Default(&o.DrainTimeout, defaultDrain)
	options.Default(&o.RecordTimeout, defaultRecord)
}

func (o *Options) validate() error {
	c := options.Of("executor")
	c.Need("Store", o.Store == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("Dispatch", o.Dispatch == nil)
	c.Need("Planner", o.Planner == nil)
	c.Need("Caller", o.Caller == nil)
	c.Need("Limits", o.Limits == nil)
	c.Need("Breakers", o.Breakers == nil)
	c.Need("Clock", o.Clock == nil)
	c.Need("Counts", o.Counts == nil)
	c.Need("IDs", o.IDs == nil)
	c.Need("Registerer", o.Registerer == nil)
	c.Refuse(o.PollAhead < 0, "PollAhead is not negative")
	c.Refuse(
		o.ChangePollInterval < 0 || o.ChangePollInterval >= cache.MaxAgeAtDecision,
		fmt.Sprintf(
			"ChangePollInterval is below %v, the age at which a timer's state is read before each call",
			cache.MaxAgeAtDecision,
		),
	)
	c.Refuse(
		o.MaxInflight < 0 || o.MaxCalls < 0 || o.Prefetch < 0,
		"MaxInflight, MaxCalls and Prefetch are not negative",
	)
	return c.Err()
}
