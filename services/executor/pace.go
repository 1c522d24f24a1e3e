package executor

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	// how late a present fire begins where catching up takes too much.
	paceLate  = 200 * time.Millisecond
	paceFor   = 300 * time.Millisecond // for how long that counts
	paceFirst = 100 * time.Millisecond
	// per batch: so much catching up goes on, however pressed the present is.
	paceMost = 500 * time.Millisecond
)

// pace slows catching up down while what is due now begins late: whatever the two share (the
// database, the cores, the endpoint) is too busy, and the present goes first. The pause before each
// batch of the low-priority topic doubles while the present is pressed, and halves when it is not.
type pace struct {
	pressed clock.Stamp
	mu      sync.Mutex
	wait    time.Duration
}

// began notes how late a first attempt began that came by another lane than the low one.
func (p *pace) began(late time.Duration) {
	if late >= paceLate {
		p.pressed.Set()
	}
}

// slow tells whether present fires begin late.
func (p *pace) slow() bool { return p.pressed.Within(paceFor) }

// next returns how long the next batch of the low-priority topic waits.
func (p *pace) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow() {
		p.wait = min(max(2*p.wait, paceFirst), paceMost)
	} else if p.wait /= 2; p.wait < paceFirst {
		p.wait = 0
	}
	return p.wait
}
