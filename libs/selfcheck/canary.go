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

// CanaryName is the canary's, in timer.ReservedApp.
const CanaryName = "canary"

const (
	everyPrefix = "@every "
	// staleAfter is how far behind now the canary's expansion may be, before it is taken for one of a
	// deployment that was off: then its phase starts anew, for nobody wants a week's canaries
	// called.
	staleAfter = 10 * time.Minute
	// maxTries is how often one begins anew whose canary another replaced meanwhile. Each that does so
	// has what it wants and stops: more than there are processes that start at once are not needed.
	maxTries = 20
)

var errContended = errors.New("others replace it all the time")

// definition returns what the canary with an interval is.
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

// intervalOf reads the interval from a definition; 0 where it has none.
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

// ensure makes the canary be there, active and with this process's interval; at the start of the
// process, and never later: were it to insist, processes whose settings differ would replace it for
// ever, and switching it off one process after the other would not last.
//
// Any number of processes do so at once: of those that create it one wins and the others find it,
// and deleting or activating it twice is doing it once. One that dies halfway leaves it deleted or
// inactive; the next to start goes on, and whoever misses a deleted one makes it.
func (w *Watch) ensure(ctx context.Context) (timer.Timer, error) {
	for range maxTries {
		t, err := w.create(ctx)
		if timer.CodeOf(err) == timer.CodeConflict {
			// It has another interval. A definition cannot be changed: the old one goes.
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
			// What it missed is skipped by the epoch of the activation that follows.
			if t, err = w.set(ctx, t.ID, timer.StatusInactive); err != nil {
				return t, err
			}
		}
		if t.Status != timer.StatusActive {
			t, err = w.set(ctx, t.ID, timer.StatusActive)
		}
		if timer.CodeOf(err) == timer.CodeNotFound {
			continue // another replaced it meanwhile
		}
		return t, err
	}
	return timer.Timer{}, fmt.Errorf("making the canary: %w", errContended)
}

// findOrCreate finds the canary that the deployment has, whatever its interval, and makes one where there
// is none: somebody deleted it.
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

// disable switches the canary off, if there is one.
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
		return timer.Timer{}, fmt.Errorf("making the canary: %w", err)
	}
	if !made[0].Existing {
		w.opts.Logger.Info().Str("interval", w.opts.Interval.String()).Msg("canary made")
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
		return timer.Timer{}, fmt.Errorf("making the canary %s: %w", to, err)
	}
	if out[0].Seq != 0 {
		w.opts.Logger.Info().Str("status", string(to)).Msg("canary changed")
	}
	w.opts.Dispatch.Committed(ctx, out[0].Fires)
	return out[0].Timer, nil
}

// find looks for the canary among the timers of the reserved app: it is the only one, unless users
// had an app of that name before it was reserved.
func (w *Watch) find(ctx context.Context) (t timer.Timer, ok bool, err error) {
	for q := (store.Query{App: timer.ReservedApp, Limit: store.MaxBatch}); ; {
		found, err := w.opts.Store.List(ctx, q)
		if err != nil {
			return t, false, fmt.Errorf("looking for the canary: %w", err)
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
