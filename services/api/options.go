package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/api/v2/apps"
	"github.com/carillon-timer/carillon/services/api/v2/audit"
	"github.com/carillon-timer/carillon/services/api/v2/backfills"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
	"github.com/carillon-timer/carillon/services/api/v2/explain"
	"github.com/carillon-timer/carillon/services/api/v2/fires"
	"github.com/carillon-timer/carillon/services/api/v2/history"
	"github.com/carillon-timer/carillon/services/api/v2/jobs"
	"github.com/carillon-timer/carillon/services/api/v2/operations"
	"github.com/carillon-timer/carillon/services/api/v2/people"
	"github.com/carillon-timer/carillon/services/api/v2/timers"
	"github.com/carillon-timer/carillon/services/api/writes"
)

// Store is the part of the store that the API uses.
type Store interface {
	writes.Store
	resourceStore
	APIKey(ctx context.Context, id string) (store.APIKey, error)
}

// resourceStore is the part of the store that the resources of v2 use.
type resourceStore interface {
	timers.Store
	fires.Store
	backfills.Store
	apps.Store
	calendars.Store
	operations.Store
	people.Store
	historyStore
}

// historyStore is the part that tells what became of fires.
type historyStore interface {
	explain.Store
	jobs.Store
	history.Store
	audit.Store
}

// Options are the dependencies and settings of the API. A setting left at zero gets its default.
type Options struct {
	Store     Store
	Bus       bus.Publisher // for timers-changed
	Dispatch  writes.Dispatcher
	Plan      store.Planner          // expands schedules at activations and edits
	Counts    *slicing.Counts        // chooses the buckets of requested fires
	Successor fires.SuccessorPlanner // plans the successor of a completed fire of a fixed delay
	Auth      auth.Rules             // who may call
	Backlog   operations.Bus         // tells the backlog of topics; nil: it is not told
	Settings  []operations.Setting   // of the process, for operators
	Health    operations.Health      // of the process, for operators; nil: its checks are not shown
	// Secrets encrypts secrets; nil: definitions with secrets or asynchronous targets are refused.
	Secrets *encryption.Keyring
	Zone    string           // IANA zone of cron expressions and calendars without one; default UTC
	Now     func() time.Time // the store's clock, as this process measures it

	Egress        *egress.Policy // of the deployment; nil: the strict default
	Topics        *egress.Topics // where pulsar targets may publish; nil: nowhere
	AllowInsecure bool           // whether targets may skip certificate verification
	// ReservedHeader is the trusted header of the gateway, which no target may send; empty: none.
	ReservedHeader string
	Kinds          []timer.TargetKind // kinds that executors call; nil: all
	// OwnNamespace is "tenant/namespace" of the deployment's own Pulsar; empty: it has none.
	OwnNamespace string

	// Caller makes test calls of targets, from this process; nil: they are refused.
	Caller callback.Caller
	// MaxTests limits concurrent test calls; one app has at most a quarter. Each counts for a second
	// at least. Further ones are answered 503; default 8.
	MaxTests int

	// Retention is how long outcomes are kept; default 7 days. It only explains their absence.
	Retention      time.Duration
	GroupWait      time.Duration // how long a create or change waits for others; default 2 ms
	GroupMax       int           // items in one transaction; default 500
	GroupsInFlight int           // concurrent transactions; default 4
	Timeout        time.Duration // of a request and of a transaction; default 10 s
	// BodyTimeout limits reading a request's body, on every route; default 10 s. Routes without a
	// key have at most 2 s.
	BodyTimeout time.Duration
	// MaxInFlight limits concurrent authenticated requests; further ones are answered 503; default
	// 4096.
	MaxInFlight int
	// MaxCompletions limits concurrent store calls of completions with a valid token; further ones
	// wait; default 512.
	MaxCompletions int
	// MaxStreams limits open event streams; one app has at most a quarter. Further ones are answered
	// 503; default 256.
	MaxStreams int
	// MaxBodies limits concurrent body reads of callers without a key; one address has at most an
	// eighth. A further read aborts the oldest; default 4096.
	MaxBodies int

	SignIn *signin.Provider // by which people sign in to the page; nil: by API keys only
	Page   bool             // whether /ui serves the page in the browser

	Tracer     *tracing.Tracer // nil: tracing is off
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultGroupWait      = 2 * time.Millisecond
	defaultGroupsInFlight = 4
	defaultTimeout        = 10 * time.Second
	defaultMaxInFlight    = 4096
	defaultMaxCompletions = 512
	defaultBodyTimeout    = 10 * time.Second
	defaultMaxStreams     = 256
	defaultMaxBodies      = 4096
	defaultMaxTests       = 8
	defaultRetention      = 7 * 24 * time.Hour
)

func (o *Options) defaults() {
	options.Default(&o.Zone, time.UTC.String())
	options.Default(&o.ReservedHeader, o.Auth.TrustHeader)
	if o.Egress == nil {
		o.Egress = egress.NewPolicy(egress.Options{})
	}
	if o.Topics == nil {
		o.Topics = &egress.Topics{}
	}
	if o.Kinds == nil {
		o.Kinds = callback.Kinds()
	}
	options.Default(&o.Retention, defaultRetention)
	options.Default(&o.GroupWait, defaultGroupWait)
	options.Default(&o.GroupMax, store.MaxBatch)
	options.Default(&o.GroupsInFlight, defaultGroupsInFlight)
	options.Default(&o.Timeout, defaultTimeout)
	options.Default(&o.MaxInFlight, defaultMaxInFlight)
	options.Default(&o.BodyTimeout, defaultBodyTimeout)
	options.Default(&o.MaxCompletions, defaultMaxCompletions)
	options.Default(&o.MaxTests, defaultMaxTests)
	options.Default(&o.MaxStreams, defaultMaxStreams)
	options.Default(&o.MaxBodies, defaultMaxBodies)
}

func (o *Options) validate() error {
	c := options.Of("api")
	c.Need("Store", o.Store == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("Dispatch", o.Dispatch == nil)
	c.Need("Plan", o.Plan == nil)
	c.Need("Counts", o.Counts == nil)
	c.Need("Successor", o.Successor == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Registerer", o.Registerer == nil)
	if _, err := zone.Load(o.Zone); err != nil {
		c.Refuse(true, "Zone: "+err.Error())
	}
	return c.Err()
}
