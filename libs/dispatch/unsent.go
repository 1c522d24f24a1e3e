package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxUnsent        = 50_000 // 6 MB; what is beyond is left to the sweep
	unsentChunk      = 1000
	unsentRetryAfter = 100 * time.Millisecond
)

// unsent are express tasks that the bus did not confirm in time. Without them a fire that was
// committed while the bus is away would be called only by the sweep, 10 s past its run, however
// soon the bus is back.
type unsent struct {
	mu    sync.Mutex
	fires []timer.Fire
	wake  chan struct{} // has room for one
}

func (u *unsent) add(fires []timer.Fire) (dropped int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(len(fires), maxUnsent-len(u.fires))
	u.fires = append(u.fires, fires[:n]...)
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return len(fires) - n
}

// notEmpty tells whether there are some: then the bus is away, or not yet done with what waited for it.
func (u *unsent) notEmpty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.fires) > 0
}

// next returns the oldest, at most so many, and leaves them there.
func (u *unsent) next(limit int) []timer.Fire {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fires[:min(limit, len(u.fires)):min(limit, len(u.fires))]
}

// removeOldest takes away the oldest n.
func (u *unsent) removeOldest(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fires = u.fires[n:]; len(u.fires) == 0 {
		u.fires = nil
	}
}

// Run publishes what Committed could not, as soon as the bus takes it, until ctx ends. What the
// process that dies still had is swept; what was confirmed after all, or swept meanwhile, is
// claimed once.
func (d *Dispatcher) Run(ctx context.Context) error {
	for {
		select {
		case <-d.unsent.wake:
		case <-ctx.Done():
			return nil
		}
		for fires := d.unsent.next(unsentChunk); len(fires) > 0 && ctx.Err() == nil; fires = d.unsent.next(unsentChunk) {
			call, cancel := context.WithTimeout(ctx, directTimeout)
			err := d.Publish(call, fires)
			cancel()
			if err != nil {
				clock.Pause(ctx, unsentRetryAfter)
				continue
			}
			d.unsent.removeOldest(len(fires))
		}
	}
}
