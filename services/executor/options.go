package executor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is what an executor needs of the store.
type Store interface { //nolint:interfacebloat // what a service needs of the sum of the small ones
	store.Fires
	store.LateFires
	store.Sessions
	Record(
		ctx context.Context,
		session timer.ID,
		outcomes []timer.Outcome,
		attempts []timer.Attempt,
	) (
		lost []timer.FireID, created []timer.Fire, err error)
	Fire(ctx context.Context, app string, id timer.FireID) (store.FireRecord, error)
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	Definitions(
		ctx context.Context,
		keys []store.VersionKey,
	) (map[store.VersionKey]timer.Definition, error)
	VersionAt(ctx context.Context, f timer.Fire) (int32, error)
	VersionTimes(ctx context.Context, keys []store.VersionKey) (map[store.VersionKey]int64, error)
	MinuteCounts(ctx context.Context, from, to int64) ([]slicing.MinuteCount, error)
	Changes(ctx context.Context, after int64, limit int) ([]store.Change, error)
	LastChange(ctx context.Context) (int64, error)
	store.Admissions
	store.Inactivities
	Backfill(ctx context.Context, app string, id timer.ID) (store.Backfill, error)
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
	SetStatus(
		ctx context.Context,
		items []store.StatusChange,
		plan store.Planner,
	) ([]store.StatusResult, error)
	AppsByID(ctx context.Context, ids []int64) ([]store.App, error)
	SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error)
	PendingEvents(
		ctx context.Context,
		session timer.ID,
		after store.OutcomePosition,
		untilMS int64,
		limit int,
	) ([]timer.Outcome, error)
	TargetAttempts(ctx context.Context, fires []timer.FireID) ([]timer.Attempt, error)
	AckEvents(ctx context.Context, session timer.ID, p store.OutcomePosition) error
}

// Planner makes the fire that follows one of a fixed delay, and what came due of a timer that is
// paused, and knows which late fires fire_all runs.
type Planner interface {
	Plan(t *timer.Timer, nowMS int64) store.Plan
	Successor(
		f *timer.Fire,
		d *timer.Definition,
		calendars []timer.Calendar,
		endMS int64,
	) (*timer.Fire, error)
	Before(t *timer.Timer, dueMS, fromMS, untilMS int64, n int) ([]int64, error)
	AmongLatest(
		f *timer.Fire,
		d *timer.Definition,
		calendars []timer.Calendar,
		untilMS int64,
		n int,
	) (bool, error)
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
	Planner  Planner
	Caller   callback.Caller // of every kind: callback.Callers
	Limits   limit.Admission
	Breakers *limit.Breakers
	Egress   *egress.Policy             // of the deployment; nil: the caller's own
	Opener   Opener                     // of what is sealed; nil: there are no encryption keys
	Tokens   *callback.CompletionTokens // nil: no receiver may accept a fire and complete it later
	Clock    *clock.Clock
	Counts   *slicing.Counts
	IDs      *timer.IDs
	Name     string // of the process, for people

	MaxInflight        int           // fires held at once; default 250,000
	MaxCalls           int           // callbacks at once; default 512
	Prefetch           int           // tasks that wait in the consumer, per partition; default 200
	ChangePollInterval time.Duration // how often the change log is polled; default 500 ms
	DrainTimeout       time.Duration // for calls in flight at a stop; default 10 s
	NoEvents           bool          // publish nothing on the outcomes topic
	// PollAhead is how long before its run a fire is looked for in the store whose task has not
	// come. Less than the triggers' lead, by more than a task takes to be claimed; 0: never.
	PollAhead time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxInflight        = 250_000
	defaultMaxCalls           = 512
	defaultPrefetch           = 200
	defaultChangePollInterval = 500 * time.Millisecond
	defaultDrain              = 10 * time.Second
)

func (o *Options) defaults() {
	options.Default(&o.MaxInflight, defaultMaxInflight)
	options.Default(&o.MaxCalls, defaultMaxCalls)
	options.Default(&o.Prefetch, defaultPrefetch)
	options.Default(&o.ChangePollInterval, defaultChangePollInterval)
	options.Default(&o.DrainTimeout, defaultDrain)
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
	c.Refuse(o.PollAhead < 0, "BypassAhead is not negative")
	c.Refuse(
		o.MaxInflight < 0 || o.MaxCalls < 0 || o.Prefetch < 0,
		"MaxHands, MaxCalls and Prefetch are not negative",
	)
	return c.Err()
}
