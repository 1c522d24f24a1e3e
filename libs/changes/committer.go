// Package changes commits changes of timers and tells others about them. The API uses it for
// single requests and batches, migrators for jobs.
package changes

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is the part of the store that changes need.
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
	Edit(ctx context.Context, items []store.Edit, plan store.Planner) ([]store.EditResult, error)
	AddFires(
		ctx context.Context,
		app string,
		id timer.ID,
		fires []timer.Fire,
	) ([]timer.Fire, error)
}

// Dispatcher puts committed fires into the window and publishes those due soon. It returns when
// that is done or given up.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options are the dependencies of a Committer.
type Options struct {
	Store    Store
	Plan     store.Planner
	Dispatch Dispatcher
	Bus      bus.Publisher // for timers-changed
	// Notifications counts change notifications by result: ok, lost or dropped.
	Notifications *prometheus.CounterVec
	Logger        zerolog.Logger
}

// Committer commits changes, each call in one transaction. After the commit it dispatches their
// fires, also those of a commit in doubt (see [store.Timers]), and queues change notifications. It
// is safe for concurrent use.
type Committer struct {
	opts          Options
	notifications chan changeNotification
}

// New returns a Committer. Its notifications wait until Publish.
func New(opts Options) *Committer {
	return &Committer{
		opts:          opts,
		notifications: make(chan changeNotification, maxNotifications),
	}
}

// Create creates timers.
func (c *Committer) Create(
	ctx context.Context,
	items []store.NewTimer,
) ([]store.CreateResult, error) {
	created, err := c.opts.Store.Create(ctx, items, c.opts.Plan)
	var fires []timer.Fire
	for i := range created {
		fires = append(fires, created[i].Fires...)
	}
	c.Dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("creating timers: %w", err)
	}
	return created, nil
}

// SetStatus changes the status of timers.
func (c *Committer) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
) ([]store.StatusResult, error) {
	changed, err := c.opts.Store.SetStatus(ctx, items, c.opts.Plan)
	var fires []timer.Fire
	for i := range changed {
		r := &changed[i]
		if r.Err == nil && r.Seq != 0 && err == nil {
			c.notify(ctx, r.Timer.ID, r.Seq)
		}
		fires = append(fires, r.Fires...)
	}
	c.Dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("changing timers: %w", err)
	}
	return changed, nil
}

// Edit gives timers new definitions. A nil plan is the default planner.
func (c *Committer) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	if plan == nil {
		plan = c.opts.Plan
	}
	edited, err := c.opts.Store.Edit(ctx, items, plan)
	var fires []timer.Fire
	for i := range edited {
		if edited[i].Err == nil && edited[i].Seq != 0 && err == nil {
			c.notify(ctx, edited[i].Timer.ID, edited[i].Seq)
		}
		fires = append(fires, edited[i].Fires...)
	}
	c.Dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("editing timers: %w", err)
	}
	return edited, nil
}

// AddFires adds fires outside the schedule and dispatches them.
func (c *Committer) AddFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	made, err := c.opts.Store.AddFires(ctx, app, id, fires)
	c.Dispatch(ctx, made)
	if err != nil {
		return nil, fmt.Errorf("adding fires: %w", err)
	}
	return made, nil
}

// Dispatch dispatches committed fires. Those of a dry run are not committed.
func (c *Committer) Dispatch(ctx context.Context, fires []timer.Fire) {
	if len(fires) > 0 && !store.IsDryRun(ctx) {
		c.opts.Dispatch.Committed(ctx, fires)
	}
}
