package peers

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	replanEvery = 5 * time.Second
	replanPage  = 200 // timers
	// replanBacklog is how many timers may wait for expansion before no more are marked. Frequent
	// timers are expanded only minutes ahead, and must not wait behind all timers of a zone.
	replanBacklog = 2000
	backlogWait   = 500 * time.Millisecond
)

// Replan replans the timers of changed zones until ctx ends. Only migrators run it. Any number may
// run it concurrently: the store divides the work, and decides which time zones apply.
func (w *Watch) Replan(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.Report().Replanning {
			marked, err := w.replanAll(ctx)
			if marked > 0 {
				w.log.Info().
					Int("count", marked).
					Str("tzdata", w.opts.Zones.Version()).
					Msg("timers of changed time zones marked for replanning")
			}
			if err != nil && ctx.Err() == nil {
				w.log.Debug().Err(err).Msg("time zones not replanned")
			}
		}
		clock.Pause(ctx, replanEvery)
	}
	return nil
}

// replanAll runs steps until none is left.
func (w *Watch) replanAll(ctx context.Context) (marked int, err error) {
	for ctx.Err() == nil {
		waiting, err := w.backlog(ctx)
		if err != nil {
			return marked, err
		}
		if waiting >= replanBacklog {
			clock.Pause(ctx, backlogWait)
			continue
		}
		more, n, err := w.step(ctx)
		marked += n
		if err != nil || !more {
			return marked, err
		}
	}
	return marked, nil
}

func (w *Watch) backlog(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	n, _, err = w.opts.Store.ExpandBacklog(ctx, replanBacklog)
	return n, err
}

func (w *Watch) step(ctx context.Context) (more bool, marked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	step, err := w.opts.Store.ReplanZones(ctx, w.opts.ID, replanPage)
	w.marked.Add(float64(step.Marked))
	return step.More, step.Marked, err
}
