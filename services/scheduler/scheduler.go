package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	gaugeEvery   = 5 * time.Second
	gaugeTimeout = 5 * time.Second
	readyFor     = 10 * time.Second
)

// Service is a scheduler.
type Service struct {
	opts          Options
	log           zerolog.Logger
	skips         zerolog.Logger // rate-limited
	heartbeater   *session.Heartbeater
	met           *metrics
	lastTick      clock.Stamp            // last tick that the store did not stop
	frozenMinutes map[int64]frozenMinute // minutes dispatched; this and the next belong to the tick
	cursor        int64                  // last known; it never moves back
	kinds         []store.SessionKind    // of the alive sessions; belongs to the monitor
	nextMissing   timer.ID               // where the next search for missing fires begins
	auditSeen     int64                  // Seq of the last entry known to be published
}

// New returns a scheduler that does nothing until Run.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	k, err := session.NewHeartbeater(session.Options{
		Store:  opts.Store,
		IDs:    opts.IDs,
		Kind:   store.SchedulerSession,
		Name:   opts.Name,
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return &Service{
		opts: opts,
		log:  opts.Logger,
		skips: opts.Logger.Sample(
			&zerolog.BurstSampler{Burst: logging.SkipLines, Period: time.Second},
		),
		heartbeater:   k,
		met:           newMetrics(opts.Registerer),
		frozenMinutes: make(map[int64]frozenMinute),
		nextMissing:   timer.ID(rand.Int64N(int64(timer.MaxID))),
	}, nil
}

// Ready returns nil while minutes are being dispatched, also while the bus does not take them: then
// executors find the fires.
func (s *Service) Ready() error {
	if !s.lastTick.Within(readyFor) {
		return errors.New("no minute dispatched within 10 s")
	}
	return nil
}

// Run schedules until ctx ends. It returns the first error of a component.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.heartbeater.Run(ctx) })
	g.Go(func() error { return s.monitorSessions(ctx) })
	g.Go(func() error {
		return every(ctx, s.opts.Tick, func() {
			if err := s.tick(ctx); err != nil {
				s.reportError(ctx, err, "minutes not dispatched")
				if !errors.Is(err, errUnpublished) {
					return
				}
			}
			s.lastTick.Set()
		})
	})
	g.Go(func() error { return s.publishEvents(ctx) })
	if !s.opts.NoAuditTopic {
		g.Go(func() error { return s.publishAudit(ctx) })
	}
	g.Go(func() error { return every(ctx, gaugeEvery, func() { s.gauge(ctx) }) })
	g.Go(func() error {
		return every(ctx, s.opts.MissingEvery, func() {
			if err := s.findMissing(ctx); err != nil {
				s.reportError(ctx, err, "not searched for missing fires")
			}
		})
	})
	return g.Wait() //nolint:wrapcheck // each component wraps its errors
}

func (s *Service) reportError(ctx context.Context, err error, msg string) {
	if ctx.Err() == nil {
		s.met.errors.Inc()
		s.log.Warn().Err(err).Msg(msg)
	}
}

// gauge sets the gauge of slices in progress.
func (s *Service) gauge(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	if n, err := s.opts.Store.SliceBacklog(ctx); err == nil {
		s.met.backlog.Set(float64(n))
	}
}

// every calls do at once and then at each tick, until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) error {
	tick := clock.NewTicker(d)
	do()
	for tick.Wait(ctx) {
		do()
	}
	return nil
}

type metrics struct {
	slices, reassigned, errors prometheus.Counter
	searched, missing          prometheus.Counter
	cursorLag, backlog         prometheus.Gauge
	sessions                   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &metrics{
		slices: counter("carillon_scheduler_slices_total", "Slices dispatched."),
		reassigned: counter(
			"carillon_scheduler_slices_reassigned_total",
			"Slices dispatched again because their lease had expired.",
		),
		errors: counter("carillon_scheduler_errors_total", "Ticks that failed."),
		searched: counter(
			"carillon_scheduler_searched_instants_total",
			"Past instants of schedules that were compared with fires and outcomes.",
		),
		missing: counter(
			"carillon_scheduler_missing_fires_total",
			"Past instants of schedules that were due and have neither a fire nor an outcome.",
		),
		cursorLag: gauge(
			"carillon_scheduler_cursor_lag_seconds",
			"Current minute minus the first minute not known to be done.",
		),
		backlog: gauge("carillon_scheduler_slices_open", "Slices dispatched and not done."),
		sessions: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "carillon_sessions",
			Help: "Alive sessions by kind; none while they cannot be read.",
		}, []string{"kind"}),
	}
}
