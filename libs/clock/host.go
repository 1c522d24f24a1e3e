package clock

import (
	"sync/atomic"
	"time"
)

// Host is the wall clock of a host that tests can put wrong: it shows the time as it is until it is
// shifted. Like a real clock that somebody sets, it moves no timer and no stretch of time that is
// measured by the monotonic clock. It is safe for concurrent use.
type Host struct{ ahead atomic.Int64 }

// Now returns what the clock shows, without a monotonic reading: that would have moved along.
func (h *Host) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(h.ahead.Load()))
}

// Set puts the clock ahead of the time as it is, or behind it where by is negative.
func (h *Host) Set(by time.Duration) { h.ahead.Store(int64(by)) }

// Jump moves the clock from where it is, and returns how far ahead it is now.
func (h *Host) Jump(by time.Duration) time.Duration { return time.Duration(h.ahead.Add(int64(by))) }
