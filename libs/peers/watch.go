package peers

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

const (
	// renewEvery is how often a process renews its registration, plus or minus a fifth. It is
	// several times shorter than store.ProcessTTL.
	renewEvery  = 10 * time.Second
	callTimeout = 10 * time.Second
	retryAfter  = time.Second // after an error
)

// Store is the part of the store that a Watch needs.
type Store interface {
	store.Processes
	ExpandBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
}

// Options configure a Watch.
type Options struct {
	Store Store
	Zones *zone.Database // database by which the process plans
	ID    timer.ID       // id of the process; new after each start
	Name  string         // name of the process, for operators

	Expands bool // the process is a migrator, which also replans

	// Settings has those that must be the same in all processes that have them, by name.
	Settings map[string]string
	// ClaimPrefix claims the Redis prefix for a database, and returns the name of a process that has
	// claimed it for another one, empty if there is none. nil: there is no Redis.
	ClaimPrefix func(ctx context.Context, database, process string) (other string, err error)
	// Publish sends notices to executors, which pass them to Heard. nil: nobody else listens.
	Publish func(ctx context.Context, messages ...bus.Message) error

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	c := options.Of("peers")
	c.Need("Store", o.Store == nil)
	c.Need("Zones", o.Zones == nil)
	c.Need("ID", o.ID == 0)
	c.Need("Registerer", o.Registerer == nil)
	return c.Err()
}

// Watch registers one process and compares it with the others. It is safe for concurrent use.
type Watch struct {
	opts   Options
	log    zerolog.Logger
	marked prometheus.Counter

	mu       sync.Mutex
	known    store.ProcessList // as of the last renewal
	mismatch bool              // already logged
	// inRedis is a process that uses the prefix with another database, empty: there is none.
	inRedis string
	// inPulsar has when other processes sent notices of another database, by name.
	inPulsar map[string]time.Time
	answer   bool // a process with another database has just sent a notice

	// The rest belongs to Run.
	compared time.Time       // when others were last told of the database
	logged   map[string]bool // the conflicts of the last renewal
}

// New returns a watch. It starts no goroutine.
func New(opts Options) (*Watch, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	w := &Watch{opts: opts, log: opts.Logger, inPulsar: make(map[string]time.Time)}
	w.register(opts.Registerer)
	return w, nil
}

// register creates the metrics.
func (w *Watch) register(reg prometheus.Registerer) {
	f := promauto.With(reg)
	source := w.opts.Zones.Source()
	if source != "embedded" {
		source = "file"
	}
	f.NewGauge(prometheus.GaugeOpts{
		Name:        "carillon_tzdata_info",
		Help:        "Always 1; the labels are the time zone database by which this process plans.",
		ConstLabels: prometheus.Labels{"version": w.opts.Zones.Version(), "source": source},
	}).Set(1)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_tzdata_versions",
		Help: "Number of different time zone versions among the processes on this database.",
	}, func() float64 { return float64(len(w.Report().Versions)) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_deployment_conflicts",
		Help: "Settings in which the processes on this database differ, and other databases on its Redis prefix or Pulsar namespace.",
	}, func() float64 { return float64(len(w.conflicts())) })
	w.marked = f.NewCounter(prometheus.CounterOpts{
		Name: "carillon_tzdata_replanned_timers_total",
		Help: "Timers that this process marked for replanning because their time zone changed.",
	})
}

// Register registers the process. If the store is unavailable, it retries until ctx ends.
func (w *Watch) Register(ctx context.Context) error {
	for {
		err := w.registerOnce(ctx)
		if err == nil || ctx.Err() != nil || timer.CodeOf(err) != timer.CodeUnavailable {
			return err
		}
		w.log.Warn().Err(err).Msg("process not registered, retrying")
		clock.Pause(ctx, retryAfter)
	}
}

func (w *Watch) registerOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o := &w.opts
	return o.Store.RegisterProcess(
		ctx,
		store.Process{
			ID:       o.ID,
			Name:     o.Name,
			Version:  o.Zones.Version(),
			Expands:  o.Expands,
			Settings: o.Settings,
		},
		o.Zones.Rules(),
	)
}

// Run renews the registration until ctx ends. A process that was stopped longer than the
// registration is valid registers again. The next replan then corrects what it planned meanwhile.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := time.Duration(float64(renewEvery) * (0.8 + 0.4*rand.Float64()))
		if err := w.renew(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("process not renewed")
			wait = retryAfter
		}
		clock.Pause(ctx, wait)
	}
	return nil
}

func (w *Watch) renew(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in, err := w.opts.Store.RenewProcess(call, w.opts.ID)
	if timer.CodeOf(err) == timer.CodeNotFound {
		if err = w.registerOnce(call); err == nil {
			in, err = w.opts.Store.RenewProcess(call, w.opts.ID)
		}
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.known = in
	w.mu.Unlock()
	w.logMismatch()
	if w.takeAnswer() || time.Since(w.compared) >= compareEvery {
		w.compared = time.Now()
		w.compare(ctx)
	}
	w.logConflicts()
	return nil
}

// Close removes the registration, so that the others need not wait until it expires. The process
// must not plan any more.
func (w *Watch) Close(ctx context.Context) error {
	return w.opts.Store.DropProcess(ctx, w.opts.ID)
}
