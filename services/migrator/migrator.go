package migrator

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/changes"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

const (
	expandTimeout = 30 * time.Second
	purgeTimeout  = 5 * time.Minute
	purgeAgain    = time.Second // after a purge that left expired rows
	gaugeTimeout  = 5 * time.Second
	gaugeLimit    = 10_000
	lagKnownFor   = 15 * time.Second // after the store has answered
	retryAfter    = time.Second      // after an error
	warnEvery     = time.Minute      // between lines about errors of one kind
)

// Service is a migrator.
type Service struct {
	opts        Options
	log         zerolog.Logger
	met         *metrics
	changes     *changes.Committer // of jobs
	lastSuccess clock.Stamp        // the last expansion that the store answered
}

// New returns a migrator that does nothing until Run.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	met := newMetrics(&opts)
	return &Service{
		opts: opts,
		log:  opts.Logger,
		met:  met,
		changes: changes.New(changes.Options{
			Store:         opts.Store,
			Plan:          opts.Planner.Plan,
			Dispatch:      opts.Dispatch,
			Bus:           opts.Bus,
			Notifications: met.notifications,
			Logger:        opts.Logger,
		}),
	}, nil
}

// Ready returns nil while timers are being expanded.
func (s *Service) Ready() error {
	if !s.lastSuccess.Within(expandTimeout) {
		return errors.New("the store has not answered for 30 s")
	}
	return nil
}

// Run expands until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	due := newDue(s.opts.Workers)
	for range s.opts.Workers {
		g.Go(func() error { return s.expand(ctx, due.timers) })
		g.Go(func() error { return s.replan(ctx, due.replans) })
	}
	g.Go(func() error { return s.backfill(ctx, due.backfills) })
	g.Go(func() error { return s.jobs(ctx, due.jobs) })
	g.Go(func() error { return s.poll(ctx, due) })
	g.Go(func() error {
		return expansion.FlushCounts(
			ctx,
			s.opts.Counts,
			s.opts.Store,
			s.opts.Now,
			s.opts.ExpandAhead,
			s.log,
		)
	})
	g.Go(func() error { return s.purge(ctx) })
	g.Go(func() error { return s.gauge(ctx) })
	return g.Wait() //nolint:wrapcheck // each component wraps its errors
}

// warnings returns a logger for errors of one kind that may come with every poll, for hours. Each kind
// has its own, so that none hides another.
func (s *Service) warnings() zerolog.Logger {
	return s.log.Sample(&zerolog.BurstSampler{Burst: 1, Period: warnEvery})
}

// expand expands batch after batch while there are timers to expand, and waits otherwise. A crash
// after the commit loses window entries, which the slice's load or the executors' poll makes up
// for. A crash before the commit loses nothing.
func (s *Service) expand(ctx context.Context, due signal) error {
	log := s.warnings()
	for due.wait(ctx) {
		began := s.opts.Now()
		call, cancel := context.WithTimeout(ctx, expandTimeout)
		fires, timers, err := s.opts.Store.Expand(call, s.opts.Batch, s.opts.Planner.Plan)
		cancel()
		if err != nil {
			s.opts.Dispatch.Committed(ctx, fires) // the commit is unknown, see store.Timers
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil //nolint:nilerr // stopped
		case err != nil:
			s.met.errors.Inc()
			log.Warn().Err(err).Msg("timers not expanded")
			clock.Pause(ctx, retryAfter)
		default:
			s.lastSuccess.Set()
			s.met.timers.Add(float64(timers))
			s.met.fires.Add(float64(len(fires)))
			s.opts.Dispatch.Committed(ctx, fires)
			if timers > 0 {
				s.trace(began, timers, fires)
				s.met.batch.Observe(float64(timers))
			}
			if 4*timers >= s.opts.Batch {
				due.set() // there may be more
			}
		}
	}
	return nil
}

// trace makes the span of an expansion.
func (s *Service) trace(began time.Time, timers int, fires []timer.Fire) {
	b := s.opts.Tracer.Batch()
	b.Add(fires)
	b.End(&tracing.Span{
		Trace: tracing.NewID(),
		ID:    traceid.NewSpan(),
		Name:  "expand",
		Start: began,
		End:   s.opts.Now(),
		Attrs: []tracing.Attr{tracing.Int("carillon.timers", int64(timers))},
	})
}

// replan does page after page of the follow-ups of edits, and waits otherwise. Each page is a
// transaction of its own. After a crash between commit and dispatch, the slice's load or an
// executor finds the fires.
func (s *Service) replan(ctx context.Context, due signal) error {
	log := s.warnings()
	for due.wait(ctx) {
		call, cancel := context.WithTimeout(ctx, expandTimeout)
		fires, more, err := s.opts.Store.ContinueReplans(call, s.opts.Planner.Plan)
		cancel()
		// includes fires whose commit is unknown, see store.Timers
		s.opts.Dispatch.Committed(ctx, fires)
		switch {
		case err != nil && ctx.Err() == nil:
			s.met.errors.Inc()
			log.Warn().Err(err).Msg("replan not continued")
			clock.Pause(ctx, retryAfter)
		case err == nil:
			s.met.fires.Add(float64(len(fires)))
			if more {
				due.set()
			}
		}
	}
	return nil
}

// backfill plans the next part of each open backfill, one round per poll. Past fires are not
// urgent, and executors get time between rounds. After a crash between commit and dispatch
// executors find the part.
func (s *Service) backfill(ctx context.Context, due signal) error {
	log := s.warnings()
	for due.wait(ctx) {
		call, cancel := context.WithTimeout(ctx, expandTimeout)
		fires, _, err := s.opts.Store.ExpandBackfills(
			call,
			s.opts.Batch,
			s.opts.Planner.PlanBackfill,
		)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.met.errors.Inc()
			log.Warn().Err(err).Msg("backfills not expanded")
		}
		s.met.fires.Add(float64(len(fires)))
		// includes fires whose commit is unknown, see store.Timers
		s.opts.Dispatch.Committed(ctx, fires)
	}
	return nil
}

// purge removes expired rows until ctx ends.
func (s *Service) purge(ctx context.Context) error {
	for ctx.Err() == nil {
		err := errors.Join(
			s.within(ctx, s.opts.Retention, s.opts.Store.PurgeExpired),
			s.within(ctx, s.opts.AuditRetention, s.opts.Store.PurgeAudit),
			s.within(ctx, s.deletedRetention(), s.purgeTimers),
		)
		wait := s.opts.PurgeEvery
		if onlyMore(err) {
			wait = purgeAgain
		} else if err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("expired rows not purged")
			wait = min(wait, time.Minute)
		}
		clock.Pause(ctx, wait)
	}
	return nil
}

// onlyMore reports whether every error of a purge says that more has expired.
func onlyMore(err error) bool {
	if err == nil {
		return false
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return errors.Is(err, store.ErrMoreExpired)
	}
	for _, e := range joined.Unwrap() {
		if !onlyMore(e) {
			return false
		}
	}
	return true
}

// deletedRetention is how long deleted timers stay: the audit trail shows their definitions, and the
// history names them. An outcome may be recorded later.
func (s *Service) deletedRetention() time.Duration {
	return max(s.opts.Retention, s.opts.AuditRetention) + store.MinTimerRetention
}

func (s *Service) purgeTimers(ctx context.Context, deleted time.Duration) error {
	//nolint:wrapcheck // the store says what it was doing
	return s.opts.Store.PurgeTimers(ctx, deleted, s.opts.OneShotRetention)
}

// within purges what is older than the retention, and counts a failure. Each purge has a time of its
// own, so a backlog of one does not keep the other from its turn. Each failure counts when it comes:
// the tries of purges that all run into their time limit are a quarter of an hour apart.
func (s *Service) within(
	ctx context.Context,
	retention time.Duration,
	purge func(context.Context, time.Duration) error,
) error {
	call, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	err := purge(call, retention)
	if err != nil && !onlyMore(err) && ctx.Err() == nil {
		s.met.purgeErrors.Inc()
	}
	return err
}

// gauge sets the gauges of the backlog until ctx ends. While the store does not answer, the lag rises:
// what waited goes on waiting, and timers may have become due for expansion since. So it is an upper
// bound, and of all migrators the lowest is the closest.
func (s *Service) gauge(ctx context.Context) error {
	var lag time.Duration
	var answered time.Time // 0: never
	for ctx.Err() == nil {
		asked := time.Now()
		call, cancel := context.WithTimeout(ctx, gaugeTimeout)
		n, oldest, err := s.opts.Store.ExpandBacklog(call, gaugeLimit)
		cancel()
		switch unknown := time.Since(answered); {
		case err == nil:
			lag, answered = 0, asked
			if oldest > 0 {
				lag = max(0, s.opts.Now().Sub(time.UnixMilli(oldest)))
			}
			s.met.backlog.Set(float64(n))
			s.met.lag.WithLabelValues().Set(lag.Seconds())
		case !answered.IsZero() && unknown > lagKnownFor:
			s.met.lag.WithLabelValues().Set((lag + unknown).Seconds())
		}
		s.gaugeJobs(ctx)
		clock.Pause(ctx, s.opts.GaugeEvery)
	}
	return nil
}

type metrics struct {
	timers, fires, errors prometheus.Counter
	purgeErrors           prometheus.Counter
	batch                 prometheus.Histogram
	backlog               prometheus.Gauge
	lag                   *prometheus.GaugeVec // without labels; it has a series once it is known

	notifications     *prometheus.CounterVec
	jobTimers, jobEnd *prometheus.CounterVec
	jobErrors         prometheus.Counter
	jobsRunning       prometheus.Gauge
	jobAge            prometheus.Gauge
}

func newMetrics(opts *Options) *metrics {
	f := promauto.With(opts.Registerer)
	f.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_migrator_expand_ahead_seconds",
		Help: "How far ahead timers are expanded.",
	}).Set(opts.ExpandAhead.Seconds())
	return &metrics{
		timers: f.NewCounter(
			prometheus.CounterOpts{
				Name: "carillon_migrator_timers_total",
				Help: "Timers expanded.",
			},
		),
		fires: f.NewCounter(
			prometheus.CounterOpts{
				Name: "carillon_migrator_fires_total",
				Help: "Fires inserted by expansion.",
			},
		),
		errors: f.NewCounter(
			prometheus.CounterOpts{
				Name: "carillon_migrator_errors_total",
				Help: "Expansions that failed and are retried.",
			},
		),
		purgeErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_purge_errors_total",
			Help: "Purges of expired rows that failed and are repeated.",
		}),
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_migrator_batch_size",
			Help:    "Timers expanded together.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100},
		}),
		backlog: f.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_migrator_backlog",
			Help: "Timers whose expansion is due (counted up to 10,000).",
		}),
		lag: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "carillon_migrator_lag_seconds",
			Help: "How long the oldest timer whose expansion is due has waited; an upper bound while the store does not answer.",
		}, nil),
		notifications: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_migrator_change_notifications_total",
			Help: "Change notifications of jobs for the topic timers-changed, by result.",
		}, []string{"result"}),
		jobTimers: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_jobs_timers_total",
			Help: "Timers that jobs dealt with, by action and result: done or failed.",
		}, []string{"action", "result"}),
		jobEnd: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_jobs_ended_total",
			Help: "Jobs that were carried out to their end, by action and status: done or failed.",
		}, []string{"action", "status"}),
		jobErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_jobs_errors_total",
			Help: "Pages of jobs that failed and are repeated.",
		}),
		jobsRunning: f.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_jobs_running",
			Help: "Jobs that are running in the deployment (counted up to 10,000).",
		}),
		jobAge: f.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_jobs_oldest_seconds",
			Help: "How long ago the oldest running job was created.",
		}),
	}
}
