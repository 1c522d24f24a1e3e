package wiring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/peers"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Registry takes the metrics of a process and returns their values.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Kit holds the parts from which the services of one process are created.
type Kit struct {
	Settings *Settings
	Process  *process.Process
	Health   *health.Health
	Log      zerolog.Logger
	Registry Registry
	Tracer   *tracing.Tracer // nil: tracing is off

	Store       store.Store
	Bus         bus.Bus
	BusInMemory bool // nobody outside of the process receives what it publishes
	// claimPrefix claims the Redis prefix for the database: see peers.Options. nil: there is no Redis.
	claimPrefix  func(ctx context.Context, database, process string) (other string, err error)
	Window       window.Window
	HostClock    *clock.Host // the host's clock where tests may skew it, otherwise nil
	Clock        *clock.Clock
	Counts       *slicing.Counts
	Zones        *zone.Database // of the process
	peers        *peers.Watch
	service      string // name of the service, or of the program that has all
	expands      bool   // the roles include a migrator
	Planner      *expansion.Planner
	Dispatch     *dispatch.Dispatcher
	IDs          *timer.IDs
	Name         string              // name of the process, for people
	Keyring      *encryption.Keyring // encrypts the deployment's secrets; nil: there are no keys
	Egress       *egress.Policy      // which addresses timers may call
	OwnListeners egress.OwnListeners // listeners of this process, which no timer may call
	Topics       *egress.Topics      // where timers may publish

	// Echo is an endpoint that timers may call at the API's address; nil: there is none. Other
	// callers need a key if the API requires one.
	Echo     http.Handler
	EchoPath string
	Home     string // where / leads while the API serves its page; empty: nowhere
	HTTPAddr string // address of the API, set when it listens
	Keyless  bool   // the API requires no keys; set when it listens

	called      callback.Callers // see callers; nil: not made yet
	secrets     *secretsWatch    // see watchSecrets; nil: not made yet
	certificate *certfile.Pair   // of the API; nil: it has no TLS
	values      []config.Value   // settings in force
	ignored     func(name string) (source string)
	flushing    bool // a part already flushes Counts
}

// Open opens the store, the bus and the window of a kit, and registers them to be closed by the
// process.
type Open func(ctx context.Context, k *Kit) error

// addCommonParts creates the parts that are the same over real servers and embedded parts.
func (k *Kit) addCommonParts(ctx context.Context) (err error) {
	wall := time.Now
	if k.HostClock != nil {
		wall = k.HostClock.Now
	}
	k.Clock = clock.New(wall, k.Store.Now)
	k.Clock.Register(k.Registry)
	if err := k.Clock.Measure(ctx); err != nil {
		k.Log.Warn().Err(err).Msg("clock not yet measured against the store's")
	}
	k.Process.Work("clock", k.Clock.Run)
	k.Health.Set("clock", func(context.Context) error {
		if _, steady := k.Clock.Read(); !steady {
			return errors.New(
				"the host's clock is not measured against the store's, or has jumped since",
			)
		}
		return nil
	})
	k.Health.SetDetail("clock", func() any { return k.Clock.Reading() })
	k.Counts = slicing.NewCounts(slicing.DefaultPerBucket)
	if k.Planner, err = expansion.New(
		expansion.Options{
			ExpandAhead: k.Settings.Timing.ExpandAhead,
			Counts:      k.Counts,
			Zones:       k.Zones,
		},
	); err != nil {
		return fmt.Errorf("making the planner: %w", err)
	}
	k.Dispatch, err = dispatch.New(dispatch.Options{
		Window:       k.Window,
		Bus:          k.Bus,
		DispatchLead: k.Settings.Timing.DispatchLead,
		Now:          k.Clock.Now,
		Logger:       k.Log,
		Registerer:   k.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the dispatcher: %w", err)
	}
	k.Process.Work("unsent tasks", k.Dispatch.Run)
	k.IDs = timer.NewIDs(k.Clock.Now)
	if err := k.addSelfChecks(); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	k.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	return k.watchPeers(ctx)
}

// addSelfChecks adds the canary and the other self-checks.
func (k *Kit) addSelfChecks() error {
	w, err := selfcheck.New(selfcheck.Options{
		Store:      k.Store,
		Dispatch:   k.Dispatch,
		Plan:       k.Planner.Plan,
		Now:        k.Clock.Now,
		Interval:   k.Settings.Canary.Every,
		Logger:     k.Log,
		Registerer: k.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the self-checks: %w", err)
	}
	k.Process.Work("self-checks", w.Run)
	if k.Settings.Canary.Every > 0 {
		k.Health.SetOptional("canary", w.Check)
		k.Health.SetDetail("canary", func() any { return w.Report() })
	}
	return nil
}

// service is the interface of all five services.
type service interface {
	Run(ctx context.Context) error
	Ready() error
}

func (k *Kit) run(name string, s service) {
	k.Process.Work(name, s.Run)
	k.Health.Set(name, func(context.Context) error { return s.Ready() })
}

// flushCounts lets one part of this process write its bucket counts once a second. Migrators do
// this themselves.
func (k *Kit) flushCounts() {
	if k.flushing {
		return
	}
	k.flushing = true
	k.Process.Work("bucket counts", func(ctx context.Context) error {
		return expansion.FlushCounts(
			ctx,
			k.Counts,
			k.Store,
			k.Clock.Now,
			k.Settings.Timing.ExpandAhead,
			k.Log,
		)
	})
}
