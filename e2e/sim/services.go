package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/trigger"
)

// role is one of the five services.
type role string

const (
	apiRole       role = "api"
	migratorRole  role = "migrator"
	schedulerRole role = "scheduler"
	triggerRole   role = "trigger"
	executorRole  role = "executor"
)

var roles = []role{apiRole, migratorRole, schedulerRole, triggerRole, executorRole}

// components are the dependencies of one service.
type components struct {
	p             *process
	store         store.Store
	bus           executor.Bus
	clock         *clock.Clock
	counts        *slicing.Counts
	planner       *expansion.Planner
	dispatch      *dispatch.Dispatcher
	runDispatcher func(context.Context) error
	window        window.Window
	caller        callback.Caller
	limits        limit.Admission
	breakers      *limit.Breakers
	ids           *timer.IDs
	log           zerolog.Logger
	reg           *prometheus.Registry
	settings      *Settings
}

type service interface {
	Run(ctx context.Context) error
}

// start starts a new process as a replica of a role.
func (env *Environment) start(r role, replica int) {
	env.mu.Lock()
	env.processCount++
	n := env.processCount
	env.mu.Unlock()
	p := &process{
		env:     env,
		role:    r,
		replica: replica,
		number:  n,
		died:    make(chan struct{}),
		skew:    env.skews[r][replica],
		tasks:   make(map[timer.FireID]int),
		rnd:     rand.New(rand.NewPCG(env.plan.Seed, uint64(n))),
	}
	p.bus = env.broker.Bus(p.String())
	ctx, cancel := context.WithCancel(env.ctx)
	p.cancel = cancel
	k, err := env.newComponents(p)
	if err != nil {
		panic(err)
	}
	s, err := k.service()
	if err != nil {
		panic(err)
	}
	env.mu.Lock()
	env.current[r][replica], env.processes[n] = p, p
	env.mu.Unlock()
	env.log.printf("%s starts", p)
	env.running.Go(func() { _ = k.clock.Run(ctx) })
	env.running.Go(func() { _ = k.runDispatcher(ctx) })
	if r == apiRole || r == executorRole {
		env.running.Go(
			func() { _ = expansion.FlushCounts(ctx, k.counts, k.store, k.clock.Now, k.settings.ExpandAhead, k.log) },
		)
	}
	env.running.Go(func() {
		if err := s.Run(ctx); err != nil && p.alive() {
			env.failf("%s exited: %v", p, err)
		}
		cancel()
		p.markEnded()
		_ = p.bus.Close()
	})
}

func (env *Environment) newComponents(p *process) (*components, error) {
	k := &components{
		p:        p,
		store:    newGatedStore(env.store, p),
		bus:      &gatedBus{p},
		window:   &gatedWindow{Window: env.window, p: p},
		caller:   caller{p},
		counts:   slicing.NewCounts(env.settings.PerBucket),
		reg:      prometheus.NewRegistry(),
		settings: &env.settings,
		log: zerolog.New(&env.log).
			Level(env.settings.LogLevel).
			With().
			Str("process", p.String()).
			Logger(),
	}
	k.clock = clock.New(p.hostTime, k.store.Now)
	// A mutant may replace the clock of the whole process. A limiter with another clock would wait
	// for ever.
	now := func() time.Time { return k.clock.Now() }
	k.ids = timer.NewIDs(now)
	planner, err := expansion.New(
		expansion.Options{ExpandAhead: k.settings.ExpandAhead, Counts: k.counts},
	)
	if err != nil {
		return nil, fmt.Errorf("creating a planner: %w", err)
	}
	k.planner = planner
	k.limits, err = limit.New(
		limit.Options{SharedState: env.limitState, Executor: p.String(), Now: now},
	)
	if err != nil {
		return nil, fmt.Errorf("creating the limits: %w", err)
	}
	if k.breakers, err = limit.NewBreakers(
		limit.BreakerOptions{Now: now, Failures: 1 << 30},
	); err != nil {
		return nil, fmt.Errorf("creating the breakers: %w", err)
	}
	d, err := dispatch.New(
		dispatch.Options{Window: k.window, Bus: k.bus, Now: now, Logger: k.log, Registerer: k.reg},
	)
	if err != nil {
		return nil, fmt.Errorf("creating a dispatcher: %w", err)
	}
	k.dispatch, k.runDispatcher = d, d.Run
	if env.settings.Mutate != nil {
		env.settings.Mutate(k)
	}
	return k, nil
}

func (k *components) service() (s service, err error) {
	switch k.p.role {
	case apiRole:
		var a *api.Service
		a, err = api.New(api.Options{
			Store:      k.store,
			Bus:        k.bus,
			Dispatch:   k.dispatch,
			Plan:       k.planner.Plan,
			Successor:  k.planner,
			Counts:     k.counts,
			Now:        k.clock.Now,
			Auth:       auth.Rules{Off: true},
			Secrets:    k.p.env.keyring,
			Logger:     k.log,
			Registerer: k.reg,
		})
		if err == nil {
			k.p.env.setHandler(k.p, a.Handler())
		}
		s = a
	case migratorRole:
		s, err = migrator.New(migrator.Options{
			Store:       k.store,
			Dispatch:    k.dispatch,
			Bus:         k.bus,
			Planner:     k.planner,
			Counts:      k.counts,
			Now:         k.clock.Now,
			ExpandAhead: k.settings.ExpandAhead,
			Workers:     1,
			Every:       k.settings.ExpandEvery,
			Logger:      k.log,
			Registerer:  k.reg,
		})
	case schedulerRole:
		s, err = scheduler.New(scheduler.Options{
			Store: k.store,
			Bus:   k.bus,
			IDs:   k.ids,
			Name:  k.p.String(),
			Now:   k.clock.Now,
			Tick:  k.settings.Tick,
			// A search costs the simulation more than anything else that a scheduler does.
			MissingEvery: missingEvery,
			Logger:       k.log,
			Registerer:   k.reg,
		})
		k.p.env.addScheduler(k.reg)
	case triggerRole:
		s, err = trigger.New(trigger.Options{
			Store:      k.store,
			Bus:        k.bus,
			Window:     k.window,
			Dispatch:   k.dispatch,
			Now:        k.clock.Now,
			Holder:     k.ids.Next(),
			MaxSlices:  k.settings.MaxSlices,
			Poll:       k.settings.Poll,
			Logger:     k.log,
			Registerer: k.reg,
		})
	case executorRole:
		s, err = executor.New(executor.Options{
			Store:              k.store,
			Bus:                k.bus,
			Dispatch:           k.dispatch,
			Planner:            k.planner,
			Caller:             k.caller,
			Limits:             k.limits,
			Breakers:           k.breakers,
			Tokens:             k.p.env.tokens,
			Clock:              k.clock,
			Counts:             k.counts,
			IDs:                k.ids,
			Name:               k.p.String(),
			MaxInflight:        k.settings.MaxInflight,
			MaxCalls:           k.settings.MaxCalls,
			DrainTimeout:       drainTimeout,
			PollAhead:          k.settings.PollAhead,
			ChangePollInterval: k.settings.ChangePollInterval,
			Logger:             k.log,
			Registerer:         k.reg,
		})
	default:
		err = errors.New("unknown role")
	}
	if err != nil {
		return nil, fmt.Errorf("creating the %s: %w", k.p.role, err)
	}
	return s, nil
}

// missingEvery is the time between searches of a scheduler for missing fires.
const missingEvery = 10 * time.Minute

// drainTimeout is how long a stopping executor waits for its calls in flight.
const drainTimeout = 10 * time.Second

// Settings are a run's settings, independent of the seed.
type Settings struct {
	ExpandAhead        time.Duration
	ChangePollInterval time.Duration
	PerBucket          int
	ExpandEvery        time.Duration
	Tick               time.Duration // of schedulers
	Poll               time.Duration
	MaxSlices          int
	MaxInflight        int
	MaxCalls           int
	PollAhead          time.Duration
	LogLevel           zerolog.Level
	Mutate             func(*components)
	// SQLite uses a real database. The default is a fake that passes the same suite at a tenth of
	// the cost.
	SQLite bool
}

func (s *Settings) tune(t Tuning) {
	s.ExpandAhead, s.PerBucket = cmp.Or(
		t.ExpandAhead,
		s.ExpandAhead,
	), cmp.Or(
		t.PerBucket,
		s.PerBucket,
	)
	s.PollAhead = cmp.Or(t.PollAhead, s.PollAhead)
	s.MaxInflight, s.MaxCalls = cmp.Or(t.MaxInflight, s.MaxInflight), cmp.Or(t.MaxCalls, s.MaxCalls)
}

// DefaultSettings returns limits that are small where the product's are large, so that a small load
// reaches them.
func DefaultSettings() Settings {
	return Settings{
		ExpandAhead:        20 * time.Minute,
		ChangePollInterval: 800 * time.Millisecond,
		PerBucket:          30,
		ExpandEvery:        2 * time.Second,
		Tick:               2 * time.Second,
		Poll:               time.Second,
		MaxSlices:          16,
		MaxCalls:           64,
		LogLevel:           zerolog.WarnLevel,
	}
}
