package dispatch

import (
	"context"
	"slices"
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

// unsent holds fires whose tasks the bus did not confirm in time, or that the window did not take.
// Without it, a fire committed during an outage would wait for executors to find it by a poll of the
// store, however soon the server recovers.
type unsent struct {
	mu    sync.Mutex
	fires []timer.Fire
	away  bool          // the server has taken none since the latest were added
	wake  chan struct{} // capacity 1
}

func newUnsent() unsent { return unsent{wake: make(chan struct{}, 1)} }

func (u *unsent) add(fires []timer.Fire) (dropped int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(len(fires), maxUnsent-len(u.fires))
	u.fires, u.away = append(u.fires, fires[:n]...), true
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return len(fires) - n
}

// unavailable reports whether fires are held, none of which the server has taken since. Then only Run
// tries, so that a server that hangs holds up nobody else.
func (u *unsent) unavailable() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.away
}

// next returns at most limit of the oldest fires, without removing them.
func (u *unsent) next(limit int) []timer.Fire {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fires[:min(limit, len(u.fires)):min(limit, len(u.fires))]
}

// removeOldest removes the n oldest fires, which the server has taken.
func (u *unsent) removeOldest(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = false
	if u.fires = u.fires[n:]; len(u.fires) == 0 {
		u.fires = nil
	}
}

// moveBehind moves the n oldest fires behind the others, if those are more than one part: the server
// of one of them may take none, and others what is theirs.
func (u *unsent) moveBehind(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n < unsentChunk {
		return
	}
	slices.Reverse(u.fires[:n])
	slices.Reverse(u.fires[n:])
	slices.Reverse(u.fires)
}

// Run publishes and puts into the window what Committed could not, as soon as the servers take it,
// until ctx ends. After a crash executors find the fires. A fire published twice is claimed once.
func (d *Dispatcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { d.entries.send(ctx, windowTimeout, d.putAgain) })
	d.unsent.send(ctx, directTimeout, func(ctx context.Context, fires []timer.Fire) error {
		return d.publish(ctx, fires, timer.PathDirect)
	})
	wg.Wait()
	return nil
}

// send repeats do for parts of the fires until it succeeds, and then removes them, until ctx ends.
func (u *unsent) send(
	ctx context.Context,
	timeout time.Duration,
	do func(ctx context.Context, fires []timer.Fire) error,
) {
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return
		}
		for fires := u.next(unsentChunk); len(fires) > 0 && ctx.Err() == nil; fires = u.next(unsentChunk) {
			call, cancel := context.WithTimeout(ctx, timeout)
			err := do(call, fires)
			cancel()
			if err != nil {
				u.moveBehind(len(fires))
				clock.Pause(ctx, unsentRetryAfter)
				continue
			}
			u.removeOldest(len(fires))
		}
	}
}

// putAgain puts fires into the window that it did not take. For those that triggers have polled past
// meanwhile, or may have before an entry arrives, tasks are published. Executors have found late ones.
func (d *Dispatcher) putAgain(ctx context.Context, fires []timer.Fire) error {
	now := d.opts.Now()
	polled := now.Add(d.opts.DispatchLead).UnixMilli()
	direct := polled + DirectDispatchSlack.Milliseconds() // as in Committed
	var entries, tasks []timer.Fire
	for i := range fires {
		f := fires[i]
		if f.RunAtMS > polled {
			entries = append(entries, f)
		}
		if f.RunAtMS < direct && f.RunAtMS > now.Add(-LateAfter).UnixMilli() {
			tasks = append(tasks, f)
		}
	}
	if len(entries) > 0 {
		if err := d.opts.Window.Put(ctx, entries); err != nil {
			return err //nolint:wrapcheck // it is only repeated
		}
		d.entriesTotal.WithLabelValues("ok").Add(float64(len(entries)))
	}
	if len(tasks) > 0 {
		d.direct(ctx, tasks)
	}
	return nil
}
