package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// create executes all items in one transaction and dispatches their fires, also those of a commit
// in doubt (see [store.Timers]).
func (s *Service) create(
	ctx context.Context,
	items []store.NewTimer,
) ([]store.CreateResult, error) {
	s.metrics.batch.WithLabelValues("create").Observe(float64(len(items)))
	created, err := s.opts.Store.Create(ctx, items, s.opts.Plan)
	var fires []timer.Fire
	for i := range created {
		fires = append(fires, created[i].Fires...)
	}
	s.dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("creating timers: %w", err)
	}
	return created, nil
}

// setStatus executes all items in one transaction and dispatches their fires, also those of a
// commit in doubt.
func (s *Service) setStatus(
	ctx context.Context,
	items []store.StatusChange,
) ([]store.StatusResult, error) {
	s.metrics.batch.WithLabelValues("status").Observe(float64(len(items)))
	changed, err := s.opts.Store.SetStatus(ctx, items, s.opts.Plan)
	var fires []timer.Fire
	for i := range changed {
		c := &changed[i]
		if c.Err == nil && c.Seq != 0 && err == nil {
			s.enqueueNotification(c.Timer.ID, c.Seq)
		}
		fires = append(fires, c.Fires...)
	}
	s.dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("changing timers: %w", err)
	}
	return changed, nil
}

func (s *Service) dispatch(ctx context.Context, fires []timer.Fire) {
	if len(fires) > 0 {
		s.opts.Dispatch.Committed(ctx, fires)
	}
}

// createOne adds one create to a batch.
func (s *Service) createOne(ctx context.Context, n store.NewTimer) (store.CreateResult, error) {
	g, err := s.waitRunning(ctx)
	if err != nil {
		return store.CreateResult{}, err
	}
	c, err := g.create.Do(ctx, n)
	if err != nil {
		return c, groupError(err)
	}
	return c, c.Err
}

// setStatusOne adds one status change to a batch.
func (s *Service) setStatusOne(ctx context.Context, c store.StatusChange) (timer.Timer, error) {
	g, err := s.waitRunning(ctx)
	if err != nil {
		return timer.Timer{}, err
	}
	r, err := g.status.Do(ctx, c)
	if err != nil {
		return r.Timer, groupError(err)
	}
	return r.Timer, r.Err
}

func (s *Service) waitRunning(ctx context.Context) (*groups, error) {
	select {
	case <-s.running:
	case <-ctx.Done():
		return nil, timer.Unavailable("the API is starting", ctx.Err())
	}
	if g := s.groups.Load(); g != nil {
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
		return timer.Unavailable("the store did not answer in time", err)
	}
	return err
}

// applyEdit replaces the definition that was read. Edits that keep the due instants write a few
// rows and share transactions. Others may rewrite an hour of fires, so each has its own
// transaction. The store decides which kind it is, because the timer may have been edited since.
func (s *Service) applyEdit(
	ctx context.Context,
	e store.Edit,
	was *timer.Definition,
) (timer.Timer, error) {
	d := &e.Definition
	if !reflect.DeepEqual(d.Schedule, was.Schedule) || !reflect.DeepEqual(d.Misfire, was.Misfire) ||
		d.Priority != was.Priority {
		return s.edit(ctx, e, s.opts.Plan)
	}
	g, err := s.waitRunning(ctx)
	if err != nil {
		return timer.Timer{}, err
	}
	edited, err := g.edit.Do(ctx, e)
	if err != nil {
		return timer.Timer{}, groupError(err)
	}
	return edited.Timer, edited.Err
}

// edit executes one edit in a transaction of its own.
func (s *Service) edit(ctx context.Context, e store.Edit, plan store.Planner) (timer.Timer, error) {
	if _, err := s.waitRunning(ctx); err != nil {
		return timer.Timer{}, err
	}
	edited, err := s.editAll(ctx, []store.Edit{e}, plan)
	if err != nil {
		return timer.Timer{}, err
	}
	return edited[0].Timer, edited[0].Err
}

// editGroup executes edits with the default planner.
func (s *Service) editGroup(ctx context.Context, items []store.Edit) ([]store.EditResult, error) {
	return s.editAll(ctx, items, s.opts.Plan)
}

// editAll executes all items in one transaction and dispatches their fires, also those of a commit
// in doubt.
func (s *Service) editAll(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	s.metrics.batch.WithLabelValues("edit").Observe(float64(len(items)))
	edited, err := s.opts.Store.Edit(ctx, items, plan)
	var fires []timer.Fire
	for i := range edited {
		if edited[i].Err == nil && edited[i].Seq != 0 && err == nil {
			s.enqueueNotification(edited[i].Timer.ID, edited[i].Seq)
		}
		fires = append(fires, edited[i].Fires...)
	}
	s.dispatch(ctx, fires)
	if err != nil {
		return nil, fmt.Errorf("editing timers: %w", err)
	}
	return edited, nil
}

// addFires adds fires outside the schedule and dispatches them.
func (s *Service) addFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	made, err := s.opts.Store.AddFires(ctx, app, id, fires)
	s.dispatch(ctx, made)
	if err != nil {
		return nil, fmt.Errorf("adding fires: %w", err)
	}
	return made, nil
}
