package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxUnsent        = 50_000 // 6 MB; executors find the excess in the store
	unsentChunk      = 1000
	unsentRetryAfter = 100 * time.Millisecond
)

// unsent holds tasks that the bus did not confirm in time. Without it, a fire committed during a
// bus outage would wait for executors to find it by a poll of the store, however soon the bus
// recovers.
type unsent struct {
	mu    sync.Mutex
	fires []timer.Fire
	wake  chan struct{} // capacity 1
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

// notEmpty reports whether fires are held: the bus is unavailable, or has not taken all of them
// yet.
func (u *unsent) notEmpty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.fires) > 0
}

// next returns at most limit of the oldest fires, without removing them.
func (u *unsent) next(limit int) []timer.Fire {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fires[:min(limit, len(u.fires)):min(limit, len(u.fires))]
}

// removeOldest removes the n oldest fires.
func (u *unsent) removeOldest(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fires = u.fires[n:]; len(u.fires) == 0 {
		u.fires = nil
	}
}

// Run publishes the fires that Committed could not, as soon as the bus takes them, until ctx ends.
// After a crash executors find them. A fire published twice is claimed once.
func (d *Dispatcher) Run(ctx context.Context) error {
	for {
		select {
		case <-d.unsent.wake:
		case <-ctx.Done():
			return nil
		}
		for fires := d.unsent.next(unsentChunk); len(fires) > 0 && ctx.Err() == nil; fires = d.unsent.next(unsentChunk) {
			call, cancel := context.WithTimeout(ctx, directTimeout)
			err := d.publish(call, fires, timer.PathDirect)
			cancel()
			if err != nil {
				clock.Pause(ctx, unsentRetryAfter)
				continue
			}
			d.unsent.removeOldest(len(fires))
		}
	}
}
