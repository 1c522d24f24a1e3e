package intake

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	// congestedLateness is how late an on-time fire must start for catch-up to be throttled.
	congestedLateness = 200 * time.Millisecond
	congestedFor      = 300 * time.Millisecond // how long one late start counts
	minCatchUpDelay   = 100 * time.Millisecond
	// maxCatchUpDelay bounds the delay per batch: catch-up continues during any congestion.
	maxCatchUpDelay = 500 * time.Millisecond
)

// catchUpThrottle slows catch-up while on-time fires start late. Then a resource that both share
// (database, cores, endpoint) is overloaded. The delay before each batch of the low-priority topic
// doubles during congestion and halves after it.
type catchUpThrottle struct {
	congestedAt clock.Stamp
	mu          sync.Mutex
	wait        time.Duration
}

// observe records the lateness of a first attempt that did not come from the low-priority topic.
func (p *catchUpThrottle) observe(late time.Duration) {
	if late >= congestedLateness {
		p.congestedAt.Set()
	}
}

// congested reports whether on-time fires start late.
func (p *catchUpThrottle) congested() bool { return p.congestedAt.Within(congestedFor) }

// delay returns how long the next batch of the low-priority topic must wait.
func (p *catchUpThrottle) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.congested() {
		p.wait = min(max(2*p.wait, minCatchUpDelay), maxCatchUpDelay)
	} else if p.wait /= 2; p.wait < minCatchUpDelay {
		p.wait = 0
	}
	return p.wait
}
