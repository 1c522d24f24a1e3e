// Package writes executes writes of timers in batches.
package writes

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/changes"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
)

// Store is the part of the store that writes need.
type Store = changes.Store

// Dispatcher dispatches committed fires.
type Dispatcher = changes.Dispatcher

// Options are the dependencies of a Writer.
type Options struct {
	Store      Store
	Plan       store.Planner
	Dispatch   Dispatcher
	Bus        bus.Publisher // for timers-changed
	Batch      batch.Options
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Writer executes writes: concurrent ones share a transaction. After the commit it dispatches their
// fires and publishes change notifications, see package changes.
type Writer struct {
	opts    Options
	metrics *metrics
	commit  *changes.Committer
	direct  chan struct{}          // has an element for each transaction of CreateAll
	running chan struct{}          // closed once groups is set
	groups  atomic.Pointer[groups] // nil before Run and after it
}

// groups batch concurrent writes.
type groups struct {
	create *batch.Group[store.NewTimer, store.CreateResult]
	status *batch.Group[store.StatusChange, store.StatusResult]
	edit   *batch.Group[store.Edit, store.EditResult] // edits that keep the due instants
}

// New returns a Writer that does not write yet.
func New(opts Options) *Writer {
	m := newMetrics(opts.Registerer)
	return &Writer{
		opts:    opts,
		metrics: m,
		commit: changes.New(changes.Options{
			Store:         opts.Store,
			Plan:          opts.Plan,
			Dispatch:      opts.Dispatch,
			Bus:           opts.Bus,
			Notifications: m.notifications,
			Logger:        opts.Logger,
		}),
		direct:  make(chan struct{}, max(opts.Batch.Concurrency, 1)),
		running: make(chan struct{}),
	}
}

// Run executes writes while serve runs. Then it finishes those in flight and publishes their
// notifications.
func (w *Writer) Run(serve func()) {
	g := &groups{
		create: batch.New(w.opts.Batch, w.create),
		status: batch.New(w.opts.Batch, w.setStatus),
		edit:   batch.New(w.opts.Batch, w.editGroup),
	}
	w.groups.Store(g)
	close(w.running)
	notified := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(notified)
		w.commit.Publish(stop)
	}()
	serve()
	w.groups.Store(nil)
	g.create.Close()
	g.status.Close()
	g.edit.Close()
	close(stop)
	<-notified
}

// Ready returns nil while writes are executed.
func (w *Writer) Ready() error {
	if w.groups.Load() == nil {
		return errors.New("not running")
	}
	return nil
}

// create executes all items in one transaction.
func (w *Writer) create(
	ctx context.Context,
	items []store.NewTimer,
) ([]store.CreateResult, error) {
	w.metrics.batch.WithLabelValues("create").Observe(float64(len(items)))
	return w.commit.Create(ctx, items)
}

// setStatus executes all items in one transaction.
func (w *Writer) setStatus(
	ctx context.Context,
	items []store.StatusChange,
) ([]store.StatusResult, error) {
	w.metrics.batch.WithLabelValues("status").Observe(float64(len(items)))
	return w.commit.SetStatus(ctx, items)
}

// Dispatch dispatches committed fires.
func (w *Writer) Dispatch(ctx context.Context, fires []timer.Fire) {
	w.commit.Dispatch(ctx, fires)
}

// Create adds one create to a batch. The timer's origin and its actor are those of the request.
func (w *Writer) Create(ctx context.Context, n store.NewTimer) (store.CreateResult, error) {
	n.Origin, n.By = tracing.Origin(ctx), store.ActorOf(ctx)
	g, err := w.waitRunning(ctx)
	if err != nil {
		return store.CreateResult{}, err
	}
	if store.IsDryRun(ctx) {
		return alone(ctx, n, w.commit.Create, func(r *store.CreateResult) error { return r.Err })
	}
	c, err := g.create.Do(ctx, n)
	if err != nil {
		return c, groupError(err)
	}
	return c, c.Err
}

// CreateAll executes creates in transactions of their own, each of at most Batch.Max items. Many
// items need not wait for those of other callers, as Create does. At most Batch.Concurrency
// transactions of all such calls run at once. Every item has its own result. If a transaction fails,
// its items have the error; the same call again finds the timers that exist.
// The timers' origin and their actor are those of the request.
func (w *Writer) CreateAll(ctx context.Context, items []store.NewTimer) []store.CreateResult {
	results := make([]store.CreateResult, 0, len(items))
	for i := range items {
		items[i].Origin, items[i].By = tracing.Origin(ctx), store.ActorOf(ctx)
	}
	_, err := w.waitRunning(ctx)
	for chunk := range slices.Chunk(items, max(w.opts.Batch.Max, 1)) {
		var created []store.CreateResult
		if err == nil { // after a timeout nothing more is tried
			created, err = w.createNow(ctx, chunk)
		}
		if err != nil {
			created = make([]store.CreateResult, len(chunk))
			for i := range created {
				created[i].Err = groupError(err)
			}
			if ctx.Err() == nil {
				err = nil // the next ones may succeed
			}
		}
		results = append(results, created...)
	}
	return results
}

// createNow executes creates in one transaction, once there is a place for it.
func (w *Writer) createNow(
	ctx context.Context,
	items []store.NewTimer,
) ([]store.CreateResult, error) {
	select {
	case w.direct <- struct{}{}:
		defer func() { <-w.direct }()
	case <-ctx.Done():
		return nil, context.Cause(ctx) //nolint:wrapcheck // groupError says it
	}
	if timeout := w.opts.Batch.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return w.create(ctx, items)
}

// SetStatus adds one status change to a batch.
func (w *Writer) SetStatus(ctx context.Context, c store.StatusChange) (timer.Timer, error) {
	c.By = store.ActorOf(ctx)
	g, err := w.waitRunning(ctx)
	if err != nil {
		return timer.Timer{}, err
	}
	if store.IsDryRun(ctx) {
		r, err := alone(ctx, c, w.commit.SetStatus,
			func(r *store.StatusResult) error { return r.Err })
		return r.Timer, err
	}
	r, err := g.status.Do(ctx, c)
	if err != nil {
		return r.Timer, groupError(err)
	}
	return r.Timer, r.Err
}

// alone executes a dry run by itself. It cannot share the transaction of writes, which is committed.
func alone[T, R any](
	ctx context.Context,
	item T,
	run func(context.Context, []T) ([]R, error),
	refused func(*R) error,
) (r R, err error) {
	results, err := run(ctx, []T{item})
	if err != nil {
		return r, groupError(err)
	}
	return results[0], refused(&results[0])
}

func (w *Writer) waitRunning(ctx context.Context) (*groups, error) {
	select {
	case <-w.running:
	case <-ctx.Done():
		return nil, timer.Unavailable("the API is starting", ctx.Err())
	}
	if g := w.groups.Load(); g != nil {
		return g, nil
	}
	return nil, timer.Unavailable("the API is stopping", nil)
}

// groupError converts an error of a batch. A stopped batch executed nothing. After a timeout the
// write may still succeed, and a repetition finds it done.
func groupError(err error) error {
	if errors.Is(err, batch.ErrClosed) {
		return timer.Unavailable("the API is stopping", err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return timer.Unavailable("the database did not answer in time", err)
	}
	return err
}

// ApplyEdit replaces the definition that was read. Edits that keep the due instants and the status
// write a few rows and share transactions. Others may rewrite an hour of fires, so each has its own
// transaction. The store decides which kind it is, because the timer may have been edited since.
func (w *Writer) ApplyEdit(
	ctx context.Context,
	e store.Edit,
	was *timer.Definition,
) (timer.Timer, error) {
	d := &e.Definition
	if !reflect.DeepEqual(d.Schedule, was.Schedule) || !reflect.DeepEqual(d.Misfire, was.Misfire) ||
		d.Priority != was.Priority || e.Deactivate || store.IsDryRun(ctx) {
		return w.Edit(ctx, e, w.opts.Plan)
	}
	e.By = store.ActorOf(ctx)
	g, err := w.waitRunning(ctx)
	if err != nil {
		return timer.Timer{}, err
	}
	edited, err := g.edit.Do(ctx, e)
	if err != nil {
		return timer.Timer{}, groupError(err)
	}
	return edited.Timer, edited.Err
}

// Edit executes one edit in a transaction of its own.
func (w *Writer) Edit(ctx context.Context, e store.Edit, plan store.Planner) (timer.Timer, error) {
	if _, err := w.waitRunning(ctx); err != nil {
		return timer.Timer{}, err
	}
	edited, err := w.editAll(ctx, []store.Edit{e}, plan)
	if err != nil {
		return timer.Timer{}, err
	}
	return edited[0].Timer, edited[0].Err
}

// editGroup executes edits with the default planner.
func (w *Writer) editGroup(ctx context.Context, items []store.Edit) ([]store.EditResult, error) {
	return w.editAll(ctx, items, w.opts.Plan)
}

// editAll executes all items in one transaction.
func (w *Writer) editAll(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	w.metrics.batch.WithLabelValues("edit").Observe(float64(len(items)))
	return w.commit.Edit(ctx, items, plan)
}

// AddFires adds fires outside the schedule and dispatches them.
func (w *Writer) AddFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	return w.commit.AddFires(ctx, app, id, fires)
}
