package clock

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxPhase is longer than every interval of polls.
const maxPhase = 24 * time.Hour

// phase shifts the polls of this process, in nanoseconds. It is 0 in tests, which are repeatable.
var phase atomic.Int64

// SpreadTicks shifts the ticks of this process by a random time, so that replicas do not poll the
// database at the same instants. A program calls it once, at its start.
func SpreadTicks() { phase.Store(rand.Int64N(int64(maxPhase))) }

// Ticker ticks at multiples of its interval. The polls of a process tick together: it wakes seldom
// while there is nothing to do, and SQLite writes what falls due together in one commit. One
// goroutine uses it.
type Ticker struct {
	interval time.Duration
	next     time.Time
}

// NewTicker returns a ticker whose first tick comes within one interval.
func NewTicker(interval time.Duration) *Ticker {
	now := time.Now()
	since := time.Duration(now.UnixNano()-phase.Load()) % interval
	if since < 0 { // before 1970
		since += interval
	}
	return &Ticker{interval: interval, next: now.Add(interval - since)}
}

// Wait waits for the next tick. It returns false if ctx has ended. If ticks have passed since the
// last one, it returns at once, for all of them together.
func (t *Ticker) Wait(ctx context.Context) bool {
	Pause(ctx, t.Until())
	t.Ticked()
	return ctx.Err() == nil
}

// WaitOr waits for the next tick, or until wake is closed, which is no tick. It returns false if ctx
// has ended.
func (t *Ticker) WaitOr(ctx context.Context, wake <-chan struct{}) bool {
	next := time.NewTimer(t.Until())
	defer next.Stop()
	select {
	case <-next.C:
		t.Ticked()
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Until returns the time until the next tick, negative if it has passed.
func (t *Ticker) Until() time.Duration { return time.Until(t.next) }

// Ticked says that the caller has waited for the tick itself.
func (t *Ticker) Ticked() {
	late := time.Since(t.next)
	t.next = t.next.Add(late - late%t.interval + t.interval)
}
