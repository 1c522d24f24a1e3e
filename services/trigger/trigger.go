package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus"
)

// Service is a trigger.
type Service struct {
	opts       Options
	log        zerolog.Logger
	leases     *leases
	appShares  *appShares
	tasks      *gatherer // exists while Run runs
	met        *metrics
	subscribed atomic.Bool
}

// New returns a trigger that does nothing until Run.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Service{
		opts:      opts,
		log:       opts.Logger,
		leases:    newLeases(opts.Lease),
		appShares: newAppShares(burstLimit, burstWindow),
		met:       newMetrics(opts.Registerer),
	}, nil
}

// Ready returns nil while slices are received.
func (s *Service) Ready() error {
	if !s.subscribed.Load() {
		return errors.New("not subscribed to the slices topic")
	}
	return nil
}

// Run takes slices until ctx ends. Then the broker gives the slices it holds to other triggers.
func (s *Service) Run(ctx context.Context) error {
	s.tasks = newGatherer(s.opts.Dispatch, s.opts.Now, s.met.batch)
	defer s.tasks.close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.renew(ctx) })
	g.Go(func() error { return s.intake(ctx) })
	return g.Wait() //nolint:wrapcheck // each component wraps its errors
}

func (s *Service) intake(ctx context.Context) error {
	c, err := s.opts.Bus.Subscribe(ctx, bus.Subscription{
		Topic:       bus.Slices,
		Name:        bus.SubTriggers,
		Concurrency: s.opts.MaxSlices,
		MaxBatch:    1,
		Prefetch:    1,
		DeadLetter:  bus.TasksDead,
	}, func(ctx context.Context, batch []bus.Message) []error { return []error{s.receive(ctx, batch[0])} })
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it was subscribed
		}
		return fmt.Errorf("subscribing to %s: %w", bus.Slices, err)
	}
	s.subscribed.Store(true)
	<-ctx.Done()
	s.subscribed.Store(false)
	if err := c.Close(); err != nil {
		return fmt.Errorf("closing the consumer of %s: %w", bus.Slices, err)
	}
	return nil
}

type metrics struct {
	slices            *prometheus.CounterVec
	holding           prometheus.Gauge
	loads             prometheus.Counter
	windowResets      prometheus.Counter
	windowUnavailable prometheus.Counter
	batch             prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		slices: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_trigger_slices_total", Help: "Slices taken, by result.",
		}, []string{"result"}),
		holding: f.NewGauge(
			prometheus.GaugeOpts{Name: "carillon_trigger_slices", Help: "Slices held."},
		),
		loads: f.NewCounter(
			prometheus.CounterOpts{
				Name: "carillon_trigger_loads_total",
				Help: "Loads of a slice from the store.",
			},
		),
		windowResets: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_trigger_window_resets_total",
			Help: "Polls that found the window flushed and loaded the slice again.",
		}),
		windowUnavailable: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_trigger_window_unavailable_total",
			Help: "Failed calls of the window. Until it is back, asked every two seconds for each slice, polls read the store.",
		}),
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_trigger_batch_size",
			Help:    "Tasks published together on the topics of on-time tasks.",
			Buckets: []float64{1, 5, 20, 100, 500, 2000},
		}),
	}
}
