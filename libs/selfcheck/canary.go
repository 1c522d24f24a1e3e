package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// CanaryName is the name of the canary timer in timer.ReservedApp.
const CanaryName = "canary"

const (
	everyPrefix = "@every "
	// staleAfter is how far the canary's expansion may be behind before the deployment counts as
	// having been off. Then its phase starts anew, because nobody needs the canaries of the past
	// week.
	staleAfter = 10 * time.Minute
	// maxTries limits how often ensure starts over because another process replaced the canary. It
	// exceeds the number of processes that start concurrently, since each stops when it succeeds.
	maxTries = 20
)

var errContended = errors.New("other processes keep replacing it")

// definition returns the definition of a canary with an interval.
func definition(interval time.Duration) timer.Definition {
	return timer.Definition{
		Schedule: timer.Schedule{
			Kind:  timer.KindCron,
			Specs: []string{everyPrefix + interval.String()},
		},
		Target: timer.Target{Kind: timer.KindCanary},
		Retry:  timer.DefaultRetry(),
	}
}

// intervalOf returns the interval of a definition, or 0 if it has none.
func intervalOf(d *timer.Definition) time.Duration {
	if len(d.Schedule.Specs) != 1 {
		return 0
	}
	text, ok := strings.CutPrefix(d.Schedule.Specs[0], everyPrefix)
	if every, err := time.ParseDuration(text); ok && err == nil {
		return every
	}
	return 0
}

// ensure creates or activates the canary with this process's interval. It runs only at the start of
// the process. If it ran later, processes with different settings would replace the canary for
// ever, and it could not be disabled process by process.
//
// Any number of processes may run it concurrently. One creates the canary and the others find it.
// Deleting or activating twice has no further effect. If a process dies halfway, the canary is
// deleted or inactive; the next process to start continues, and every running one recreates a
// deleted canary.
func (w *Watch) ensure(ctx context.Context) (timer.Timer, error) {
	for range maxTries {
		t, err := w.create(ctx)
		if timer.CodeOf(err) == timer.CodeConflict {
			// It has another interval. Definitions are immutable, so the old timer is deleted.
			if err := w.remove(ctx); err != nil {
				return t, err
			}
			continue
		}
		if err != nil {
			return t, err
		}
		asleep := t.NextDueMS != 0 && t.NextDueMS < w.opts.Now().Add(-staleAfter).UnixMilli()
		if t.Status == timer.StatusActive && asleep {
			// The epoch of the following activation skips the missed fires.
			if t, err = w.set(ctx, t.ID, timer.StatusInactive); err != nil {
				return t, err
			}
		}
		if t.Status != timer.StatusActive {
			t, err = w.set(ctx, t.ID, timer.StatusActive)
		}
		if timer.CodeOf(err) == timer.CodeNotFound {
			continue // another process replaced it meanwhile
		}
		return t, err
	}
	return timer.Timer{}, fmt.Errorf("creating the canary: %w", errContended)
}

// findOrCreate returns the deployment's canary, whatever its interval. It creates one if it was
// deleted.
func (w *Watch) findOrCreate(ctx context.Context) (timer.Timer, error) {
	t, ok, err := w.find(ctx)
	if err != nil || ok {
		return t, err
	}
	t, err = w.create(ctx)
	if timer.CodeOf(err) == timer.CodeConflict {
		t, _, err = w.find(ctx)
	}
	return t, err
}

// disable deactivates the canary, if there is one.
func (w *Watch) disable(ctx context.Context) error {
	t, ok, err := w.find(ctx)
	if err != nil || !ok || t.Status != timer.StatusActive {
		return err
	}
	_, err = w.set(ctx, t.ID, timer.StatusInactive)
	return err
}

func (w *Watch) create(ctx context.Context) (timer.Timer, error) {
	made, err := w.opts.Store.Create(ctx, []store.NewTimer{
		{
			App:        timer.ReservedApp,
			Name:       CanaryName,
			Definition: definition(w.opts.Interval),
			Activate:   true,
		},
	}, w.opts.Plan)
	if err == nil {
		err = made[0].Err
	}
	if err != nil {
		return timer.Timer{}, fmt.Errorf("creating the canary: %w", err)
	}
	if !made[0].Existing {
		w.opts.Logger.Info().Str("interval", w.opts.Interval.String()).Msg("canary created")
	}
	w.opts.Dispatch.Committed(ctx, made[0].Fires)
	return made[0].Timer, nil
}

func (w *Watch) remove(ctx context.Context) error {
	t, ok, err := w.find(ctx)
	if err != nil || !ok {
		return err
	}
	if _, err = w.set(ctx, t.ID, timer.StatusDeleted); timer.CodeOf(err) == timer.CodeNotFound {
		return nil
	}
	return err
}

func (w *Watch) set(ctx context.Context, id timer.ID, to timer.Status) (timer.Timer, error) {
	out, err := w.opts.Store.SetStatus(
		ctx,
		[]store.StatusChange{{App: timer.ReservedApp, ID: id, Status: to}},
		w.opts.Plan,
	)
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		return timer.Timer{}, fmt.Errorf("setting the canary to %s: %w", to, err)
	}
	if out[0].Seq != 0 {
		w.opts.Logger.Info().Str("status", string(to)).Msg("canary changed")
	}
	w.opts.Dispatch.Committed(ctx, out[0].Fires)
	return out[0].Timer, nil
}

// find searches the reserved app for the canary. Usually the canary is its only timer, unless users
// had an app of that name before it was reserved.
func (w *Watch) find(ctx context.Context) (t timer.Timer, ok bool, err error) {
	for q := (store.Query{App: timer.ReservedApp, Limit: store.MaxBatch}); ; {
		found, err := w.opts.Store.List(ctx, q)
		if err != nil {
			return t, false, fmt.Errorf("finding the canary: %w", err)
		}
		for i := range found {
			if found[i].Name == CanaryName {
				return found[i], true, nil
			}
		}
		if len(found) < q.Limit {
			return t, false, nil
		}
		q.After = found[len(found)-1].ID
	}
}
