package selfcheck

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// pollEvery is how often a process polls the store, plus or minus a fifth, so that processes
	// started together do not stay in step.
	pollEvery   = 5 * time.Second
	pollTimeout = 3 * time.Second // of each of the two questions of a poll
	// unvouchedAfter is how long after its last poll a process relies on the result.
	unvouchedAfter = 3 * pollEvery
)

// Store is the part of the store that a Watch needs.
type Store interface {
	Create(
		ctx context.Context,
		items []store.NewTimer,
		plan store.Planner,
	) ([]store.CreateResult, error)
	SetStatus(
		ctx context.Context,
		items []store.StatusChange,
		plan store.Planner,
	) ([]store.StatusResult, error)
	List(ctx context.Context, q store.Query) ([]timer.Timer, error)
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
	OldestOpen(ctx context.Context) (int64, error)
}

// Dispatcher dispatches committed fires.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options configure a Watch.
type Options struct {
	Store    Store
	Dispatch Dispatcher
	Plan     store.Planner
	Now      func() time.Time // the store's clock
	Interval time.Duration    // interval of the canary, whole seconds; 0 disables it

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	c := options.Of("selfcheck")
	c.Need("Store", o.Store == nil)
	c.Need("Dispatch", o.Dispatch == nil)
	c.Need("Plan", o.Plan == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Registerer", o.Registerer == nil)
	c.Refuse(o.Interval < 0 || o.Interval%time.Second != 0, "Interval is whole seconds, or 0")
	return c.Err()
}

// Watch is one process's view of the deployment. It is safe for concurrent use.
type Watch struct {
	opts Options

	mu            sync.Mutex
	began         time.Time
	interval      time.Duration     // interval of the existing canary
	last          *timer.Outcome    // latest canary that was called
	kind          timer.OutcomeKind // outcome of the latest canary, called or not
	oldestOverdue time.Duration     // overdue time of the oldest open fire at the last poll
	// polledAt is the time of that poll by the monotonic clock. Before the first poll it is when
	// the watch began.
	polledAt time.Time
	canaryAt time.Time // the last look at the canary that the store answered
	// lateness has a series while the latest canary is known. It is nil without a canary.
	lateness *prometheus.GaugeVec

	id      timer.ID // id of the canary; 0 means unknown. Used only by Run
	ensured bool     // ensure has succeeded. Used only by Run
}

// New returns a watch. It starts no goroutine.
func New(opts Options) (*Watch, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	now := time.Now()
	w := &Watch{opts: opts, began: now, polledAt: now, interval: opts.Interval}
	w.register(opts.Registerer)
	return w, nil
}

// Run creates the canary and polls until ctx ends. While the store is unavailable, it retries.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.poll(ctx)
		//nolint:mnd // a fifth less to a fifth more
		clock.Pause(ctx, pollEvery*4/5+rand.N(pollEvery*2/5))
	}
	return nil
}

func (w *Watch) poll(ctx context.Context) {
	if err := within(ctx, w.pollOldest); err != nil {
		w.opts.Logger.Debug().Err(err).Msg("oldest open fire not read")
	}
	if err := within(ctx, w.pollCanary); err != nil {
		w.opts.Logger.Debug().Err(err).Msg("canary not checked")
	}
	w.showLateness()
}

// within calls do with a time limit of its own: while the search for the oldest open fire is slow,
// the canary must not appear to be silent.
func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return do(ctx)
}

func (w *Watch) pollOldest(ctx context.Context) error {
	asked := time.Now()
	at, err := w.opts.Store.OldestOpen(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldestOverdue, w.polledAt = 0, asked
	if at > 0 {
		w.oldestOverdue = max(0, w.opts.Now().Sub(time.UnixMilli(at)))
	}
	return nil
}

func (w *Watch) pollCanary(ctx context.Context) error {
	if w.opts.Interval == 0 {
		return w.disableOnce(ctx)
	}
	if err := w.resolveCanary(ctx); err != nil || w.id == 0 {
		return err
	}
	asked := time.Now()
	found, err := w.opts.Store.History(ctx, timer.ReservedApp, w.id, timer.FireID{}, 1)
	if timer.CodeOf(err) == timer.CodeNotFound {
		w.id = 0
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canaryAt = asked
	if len(found) > 0 {
		if w.kind = found[0].Kind; w.kind == timer.Delivered {
			// Fires of a deleted or disabled canary are skipped and do not count.
			w.last = &found[0]
		}
	}
	return nil
}

// resolveCanary finds the id of the canary. The first time it creates the canary. It searches again
// while the canary is overdue, because another process may have replaced or deleted it.
func (w *Watch) resolveCanary(ctx context.Context) error {
	findOrCreate := w.findOrCreate
	switch {
	case !w.ensured:
		findOrCreate = w.ensure
	case w.id != 0 && !w.overdue():
		return nil
	}
	t, err := findOrCreate(ctx)
	if err != nil {
		return err
	}
	w.ensured, w.id = true, t.ID
	w.mu.Lock()
	defer w.mu.Unlock()
	if every := intervalOf(&t.Definition); every > 0 {
		w.interval = every
	}
	return nil
}

// disableOnce disables the canary once.
func (w *Watch) disableOnce(ctx context.Context) error {
	if w.ensured {
		return nil
	}
	if err := w.disable(ctx); err != nil {
		return err
	}
	w.ensured = true
	return nil
}
