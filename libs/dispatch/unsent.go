package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxUnsent        = 50_000 // of each topic: 6 MB; executors find the excess in the store
	unsentChunk      = 1000
	unsentRetryAfter = 100 * time.Millisecond
	unsentRefused    = 2 * time.Second
)

// unsent holds fires whose tasks a topic did not confirm in time, or that the window did not take.
// Without it, a fire committed during an outage would wait for executors to find it by a poll of
// the store, however soon the server recovers. Each topic has its own, so that one that is
// unavailable holds up no other.
type unsent struct {
	mu    sync.Mutex
	fires []timer.Fire
	away  bool          // there are some, and the server has taken none since the latest
	until time.Time     // until then, the server is not tried for fires that are not held
	wake  chan struct{} // capacity 1
}

func newUnsent() *unsent { return &unsent{wake: make(chan struct{}, 1)} }

// add adds fires that the server did not take.
func (u *unsent) add(fires []timer.Fire) (dropped int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = true
	return u.append(fires)
}

// put adds fires that the server was not asked to take yet.
func (u *unsent) put(fires []timer.Fire) (dropped int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.append(fires)
}

// append is called with the lock held.
func (u *unsent) append(fires []timer.Fire) (dropped int) {
	n := min(len(fires), maxUnsent-len(u.fires))
	u.fires = append(u.fires, fires[:n]...)
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return len(fires) - n
}

// unavailable reports whether fires are held, none of which the server has taken since. Then only Run
// tries, so that a server that hangs holds up nobody else. It is also true for a moment after refused.
func (u *unsent) unavailable() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.away || time.Now().Before(u.until)
}

// refused notes that the server did not take fires that need not be held.
func (u *unsent) refused() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = time.Now().Add(unsentRefused)
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

// remove removes and returns the fires for which match is true. The caller has no call under way
// with what next returned.
func (u *unsent) remove(match func(*timer.Fire) bool) (removed []timer.Fire) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fires = slices.DeleteFunc(u.fires, func(f timer.Fire) bool {
		if !match(&f) {
			return false
		}
		removed = append(removed, f)
		return true
	})
	if len(u.fires) == 0 { // nobody would find out that the server takes some again
		u.fires, u.away = nil, false
	}
	return removed
}

// moveBehind moves the n oldest fires behind the others, if those are more than one part: a node of
// the window may take none, and others what is theirs. A topic of which one partition hangs takes
// none at all: see pulsarbus.
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
// until ctx ends. Each topic and the window have a goroutine, so that none waits for another. After
// a crash executors find the fires. A fire published twice is claimed once.
func (d *Dispatcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { d.entries.send(ctx, windowTimeout, func() { d.moveDue(ctx) }, d.putAgain) })
	for _, topic := range taskTopics() {
		wg.Go(func() {
			d.unsent[topic].send(ctx, directTimeout,
				func() { d.moveLate(ctx, topic) },
				func(ctx context.Context, fires []timer.Fire) error {
					return d.send(ctx, topic, fires, timer.PathDirect)
				})
		})
	}
	wg.Wait()
	return nil
}

// moveLate moves the fires that have become late meanwhile to the low-priority topic. Only the
// goroutine of their topic does, between its calls, so no fire is moved while it is published.
func (d *Dispatcher) moveLate(ctx context.Context, topic bus.Topic) {
	if topic == bus.TasksLow {
		return
	}
	now := d.opts.Now()
	late := d.unsent[topic].remove(func(f *timer.Fire) bool { return TopicOf(f, now) != topic })
	_ = d.putOn(ctx, bus.TasksLow, late)
}

// moveDue moves the fires that are due too soon for a window entry, see Committed, to their topics,
// however long the window stays unavailable. Executors have found late ones.
func (d *Dispatcher) moveDue(ctx context.Context) {
	now := d.opts.Now()
	direct := now.Add(d.opts.DispatchLead + DirectDispatchSlack).UnixMilli()
	due := d.entries.remove(func(f *timer.Fire) bool { return f.RunAtMS < direct })
	late := now.Add(-LateAfter).UnixMilli()
	due = slices.DeleteFunc(due, func(f timer.Fire) bool { return f.RunAtMS <= late })
	_ = d.byTopic(ctx, due, (*Dispatcher).putOn)
}

// putOn leaves fires to the goroutine of a topic, without waiting. The error is always nil.
func (d *Dispatcher) putOn(_ context.Context, topic bus.Topic, fires []timer.Fire) error {
	if len(fires) == 0 {
		return nil
	}
	if dropped := d.unsent[topic].put(fires); dropped > 0 {
		d.opts.Logger.Debug().
			Str("topic", string(topic)).
			Int("dropped", dropped).
			Msg("tasks not queued; left to executors")
	}
	return nil
}

// send repeats do for parts of the fires until it succeeds, and then removes them, until ctx ends. It
// calls before ahead of each part. One goroutine runs it.
func (u *unsent) send(
	ctx context.Context,
	timeout time.Duration,
	before func(),
	do func(ctx context.Context, fires []timer.Fire) error,
) {
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			before()
			fires := u.next(unsentChunk)
			if len(fires) == 0 {
				break
			}
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

// putAgain puts fires into the window that it did not take.
func (d *Dispatcher) putAgain(ctx context.Context, fires []timer.Fire) error {
	if err := d.opts.Window.Put(ctx, fires); err != nil {
		return err //nolint:wrapcheck // it is only repeated
	}
	d.entriesTotal.WithLabelValues("ok").Add(float64(len(fires)))
	return nil
}
