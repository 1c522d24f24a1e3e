package sim

import (
	"cmp"
	"context"
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

// kit is what a service is made of.
type kit struct {
	p        *process
	store    store.Store
	bus      executor.Bus
	clock    *clock.Clock
	counts   *slicing.Counts
	planner  *expansion.Planner
	dispatch *dispatch.Dispatcher
	unsent   func(context.Context) error
	window   window.Window
	caller   callback.Caller
	limits   limit.Gate
	breakers *limit.Breakers
	ids      *timer.IDs
	log      zerolog.Logger
	reg      *prometheus.Registry
	set      *Settings
}

type service interface {
	Run(ctx context.Context) error
}

// start makes a new process in a place and runs its service there.
func (w *World) start(r role, place int) {
	w.mu.Lock()
	w.made++
	n := w.made
	w.mu.Unlock()
	p := &process{
		world: w, role: r, place: place, n: n, died: make(chan struct{}), skew: w.skews[r][place],
		tasks: make(map[timer.FireID]int),
		rnd:   rand.New(rand.NewPCG(w.plan.Seed, uint64(n))),
	}
	p.bus = w.broker.Bus(p.String())
	ctx, cancel := context.WithCancel(w.ctx)
	p.end = cancel
	k, err := w.kitOf(p)
	if err != nil {
		panic(err)
	}
	s, err := k.service()
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.places[r][place], w.all[n] = p, p
	w.mu.Unlock()
	w.log.printf("%s starts", p)
	w.running.Go(func() { _ = k.clock.Run(ctx) })
	w.running.Go(func() { _ = k.unsent(ctx) })
	if r == apiRole || r == executorRole {
		w.running.Go(func() { _ = expansion.FlushCounts(ctx, k.counts, k.store, k.clock.Now, k.set.Step1, k.log) })
	}
	w.running.Go(func() {
		if err := s.Run(ctx); err != nil && p.alive() {
			w.failf("%s ended by itself: %v", p, err)
		}
		cancel()
		p.quit()
		_ = p.bus.Close()
	})
}

func (w *World) kitOf(p *process) (*kit, error) {
	k := &kit{
		p: p, store: &gatedStore{Store: w.store, p: p}, bus: &gatedBus{p}, window: &gatedWindow{Window: w.window, p: p},
		caller: caller{p},
		counts: slicing.NewCounts(w.set.PerBucket), reg: prometheus.NewRegistry(), set: &w.set,
		log: zerolog.New(&w.log).Level(w.set.LogLevel).With().Str("process", p.String()).Logger(),
	}
	k.clock = clock.New(p.wall, k.store.Now)
	now := func() time.Time { return k.clock.Now() } // a mutant may put another clock there, for all of the process: a limiter that lives by one of its own waits for ever
	k.ids = timer.NewIDs(now)
	planner, err := expansion.New(expansion.Options{Step1: k.set.Step1, Counts: k.counts})
	if err != nil {
		return nil, fmt.Errorf("making a planner: %w", err)
	}
	k.planner = planner
	k.limits, err = limit.New(limit.Options{Ledger: w.ledger, Executor: p.String(), Now: now})
	if err != nil {
		return nil, fmt.Errorf("making the limits: %w", err)
	}
	if k.breakers, err = limit.NewBreakers(limit.BreakerOptions{Now: now, Failures: 1 << 30}); err != nil {
		return nil, fmt.Errorf("making the breakers: %w", err)
	}
	d, err := dispatch.New(dispatch.Options{Window: k.window, Bus: k.bus, Now: now, Logger: k.log, Registerer: k.reg})
	if err != nil {
		return nil, fmt.Errorf("making a dispatcher: %w", err)
	}
	k.dispatch, k.unsent = d, d.Run
	if w.set.Mutate != nil {
		w.set.Mutate(k)
	}
	return k, nil
}

func (k *kit) service() (s service, err error) {
	switch k.p.role {
	case apiRole:
		var a *api.Service
		a, err = api.New(api.Options{
			Store: k.store, Bus: k.bus, Dispatch: k.dispatch, Plan: k.planner.Plan, Follow: k.planner, Counts: k.counts, Now: k.clock.Now,
			Auth: api.Auth{Off: true}, Secrets: k.p.world.ring, Logger: k.log, Registerer: k.reg,
		})
		if err == nil {
			k.p.world.serve(k.p, a.Handler())
		}
		s = a
	case migratorRole:
		s, err = migrator.New(migrator.Options{
			Store: k.store, Dispatch: k.dispatch, Planner: k.planner, Counts: k.counts, Now: k.clock.Now, Step1: k.set.Step1,
			Workers: 1, Every: k.set.ExpandEvery, Logger: k.log, Registerer: k.reg,
		})
	case schedulerRole:
		s, err = scheduler.New(scheduler.Options{
			Store: k.store, Bus: k.bus, Dispatch: k.dispatch, IDs: k.ids, Name: k.p.String(), Now: k.clock.Now,
			Tick: k.set.Tick, SweepEvery: k.set.Tick, Logger: k.log, Registerer: k.reg,
		})
	case triggerRole:
		s, err = trigger.New(trigger.Options{
			Store: k.store, Bus: k.bus, Window: k.window, Dispatch: k.dispatch, Now: k.clock.Now, Holder: k.ids.Next(),
			MaxSlices: k.set.MaxSlices, Poll: k.set.Poll, Logger: k.log, Registerer: k.reg,
		})
	default:
		s, err = executor.New(executor.Options{
			Store: k.store, Bus: k.bus, Dispatch: k.dispatch, Planner: k.planner, Caller: k.caller, Limits: k.limits, Breakers: k.breakers,
			Tokens: k.p.world.tokens, Clock: k.clock, Counts: k.counts, IDs: k.ids, Name: k.p.String(), MaxHands: k.set.MaxHands, MaxCalls: k.set.MaxCalls, DrainTimeout: drain,
			BypassAhead: k.set.BypassAhead, Step2: k.set.Step2,
			Logger: k.log, Registerer: k.reg,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", k.p.role, err)
	}
	return s, nil
}

// drain is how long an executor that stops waits for what it has in hand.
const drain = 10 * time.Second

// Settings of a run that no seed changes.
type Settings struct {
	Step1       time.Duration
	Step2       time.Duration
	PerBucket   int
	ExpandEvery time.Duration
	Tick        time.Duration // of schedulers, and between their sweeps
	Poll        time.Duration
	MaxSlices   int
	MaxHands    int
	MaxCalls    int
	BypassAhead time.Duration
	LogLevel    zerolog.Level
	Mutate      func(*kit)
	SQLite      bool // the store is a database, in place of a fake that passes the same suite at a tenth of the cost
}

func (s *Settings) tune(t Tuning) {
	s.Step1, s.PerBucket = cmp.Or(t.Step1, s.Step1), cmp.Or(t.PerBucket, s.PerBucket)
	s.BypassAhead = cmp.Or(t.BypassAhead, s.BypassAhead)
	s.MaxHands, s.MaxCalls = cmp.Or(t.MaxHands, s.MaxHands), cmp.Or(t.MaxCalls, s.MaxCalls)
}

// DefaultSettings are small where the product's are large, so that a small load reaches what a large one would.
func DefaultSettings() Settings {
	return Settings{
		Step1: 20 * time.Minute, Step2: 800 * time.Millisecond, PerBucket: 30, ExpandEvery: 2 * time.Second, Tick: 2 * time.Second, Poll: time.Second, MaxSlices: 16, MaxCalls: 64,
		LogLevel: zerolog.WarnLevel,
	}
}
