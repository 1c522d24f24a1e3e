package clock

import (
	"sync/atomic"
	"time"
)

// Host is the wall clock of a host that tests can shift. Like a real clock that somebody sets, a
// shift affects no timers and no durations measured by the monotonic clock. It is safe for
// concurrent use.
type Host struct{ ahead atomic.Int64 }

// Now returns the shifted time, without a monotonic reading, which would not be shifted.
func (h *Host) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(h.ahead.Load()))
}

// Set shifts the clock relative to the real time. A negative by sets it behind.
func (h *Host) Set(by time.Duration) { h.ahead.Store(int64(by)) }

// Jump shifts the clock further, and returns how far ahead it is now.
func (h *Host) Jump(by time.Duration) time.Duration { return time.Duration(h.ahead.Add(int64(by))) }
