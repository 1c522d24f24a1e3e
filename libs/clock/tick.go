package clock

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxPhase is longer than most intervals of polls.
const maxPhase = time.Minute

// phase shifts the polls of this process, in nanoseconds. It is 0 in tests, which are repeatable.
var phase atomic.Int64

// SpreadTicks shifts the ticks of this process by a random time, so that replicas do not poll the
// database at the same instants. A program calls it once, at its start.
func SpreadTicks() { phase.Store(rand.Int64N(int64(maxPhase))) }

// UntilTick returns the time until the next tick of an interval, at least 1 ns and at most the
// interval. The polls of a process tick together: it wakes seldom while there is nothing to do, and
// SQLite writes what falls due together in one commit.
func UntilTick(interval time.Duration) time.Duration {
	since := time.Duration(time.Now().UnixNano()-phase.Load()) % interval
	if since < 0 { // before 1970
		since += interval
	}
	return interval - since
}
