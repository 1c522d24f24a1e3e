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
	// pollEvery is how often a process looks, give or take a fifth: processes that started together
	// shall not go on looking together.
	pollEvery   = 5 * time.Second
	pollTimeout = 3 * time.Second
	// unvouchedAfter is without a look for how long a process no longer vouches for what it saw last.
	unvouchedAfter = 3 * pollEvery
)

// Store is what a watch needs of the store.
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

// Dispatcher brings committed fires on their way.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options of a watch.
type Options struct {
	Store    Store
	Dispatch Dispatcher
	Plan     store.Planner
	Now      func() time.Time // the store's clock
	Interval time.Duration    // of the canary, whole seconds; 0: there shall be none

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

// Watch looks after one process's view of the deployment. It is safe for concurrent use.
type Watch struct {
	opts Options

	mu            sync.Mutex
	began         time.Time
	interval      time.Duration     // of the canary that there is
	last          *timer.Outcome    // the latest canary that was called
	kind          timer.OutcomeKind // of the latest canary, called or not
	oldestOverdue time.Duration     // how far the oldest open fire was past its run, when looked last
	// when that was, by the monotonic clock; at first when the watch began.
	polledAt time.Time

	id      timer.ID // the canary's; 0: to be found. Run's alone
	ensured bool     // it was established. Run's alone
}

// New returns a watch that does nothing until Run.
func New(opts Options) (*Watch, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	now := time.Now()
	w := &Watch{opts: opts, began: now, polledAt: now, interval: opts.Interval}
	w.register(opts.Registerer)
	return w, nil
}

// Run makes the canary and looks, until ctx ends. The store may be away: what cannot be done now is
// done later.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.poll(ctx)
		//nolint:mnd // a fifth less to a fifth more
		clock.Pause(ctx, pollEvery*4/5+rand.N(pollEvery*2/5))
	}
	return nil
}

func (w *Watch) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if err := w.pollOldest(ctx); err != nil {
		w.opts.Logger.Debug().Err(err).Msg("oldest open fire not read")
	}
	if err := w.pollCanary(ctx); err != nil {
		w.opts.Logger.Debug().Err(err).Msg("canary not looked after")
	}
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
	found, err := w.opts.Store.History(ctx, timer.ReservedApp, w.id, timer.FireID{}, 1)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		w.id = 0
	case err != nil:
		return err //nolint:wrapcheck // the store says what it was doing
	case len(found) > 0:
		w.mu.Lock()
		if w.kind = found[0].Kind; w.kind == timer.Delivered {
			// those of a canary that was deleted or switched off are skipped, and do not count.
			w.last = &found[0]
		}
		w.mu.Unlock()
	}
	return nil
}

// resolveCanary finds out which timer the canary is: at first by making it, and again whenever it is silent,
// for it may have been replaced or deleted.
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

// disableOnce switches the canary off, once.
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
