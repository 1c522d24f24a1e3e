package executor

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	// how late a present fire begins where catching up takes too much.
	congestedLateness = 200 * time.Millisecond
	congestedFor      = 300 * time.Millisecond // for how long that counts
	minCatchUpDelay   = 100 * time.Millisecond
	// per batch: so much catching up goes on, however pressed the present is.
	maxCatchUpDelay = 500 * time.Millisecond
)

// catchUpThrottle slows catching up down while what is due now begins late: whatever the two share (the
// database, the cores, the endpoint) is too busy, and the present goes first. The pause before each
// batch of the low-priority topic doubles while the present is pressed, and halves when it is not.
type catchUpThrottle struct {
	congestedAt clock.Stamp
	mu          sync.Mutex
	wait        time.Duration
}

// observe notes how late a first attempt began that came by another lane than the low one.
func (p *catchUpThrottle) observe(late time.Duration) {
	if late >= congestedLateness {
		p.congestedAt.Set()
	}
}

// congested tells whether present fires begin late.
func (p *catchUpThrottle) congested() bool { return p.congestedAt.Within(congestedFor) }

// delay returns how long the next batch of the low-priority topic waits.
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
