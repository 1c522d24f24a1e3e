package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/timer"
)

// phase is a point in time of an outside call.
type phase uint8

const (
	before phase = iota // before any effect
	after               // after the effect, before the answer
)

func (p phase) String() string { return [...]string{"before", "after"}[p] }

var errDead = errors.New("the process is dead")

// process is one running service with its access to shared parts, which it reaches only through
// beforeCall and afterCall. So it can be killed and frozen between any two of its effects. Another
// process takes its place when it dies.
type process struct {
	env     *Environment
	role    role
	replica int
	number  uint16 // unique number; its callbacks have it as their port
	bus     *membus.Bus
	cancel  context.CancelFunc
	died    chan struct{}

	mu              sync.Mutex
	rnd             *rand.Rand
	dead            bool
	ended           bool          // the service has ended
	stopRequestedAt time.Time     // when it was told to stop in order; zero: not yet
	thaw            chan struct{} // nil: not frozen; closed at the end of the freeze
	armedTrigger    *armedTrigger
	cutOff          bool          // from the store
	skew            time.Duration // of the host's clock
	frozen          []timeRange
	tasks           map[timer.FireID]int // unacknowledged tasks in its handlers
	// When a fault last may have kept the process from renewing its session.
	disturbedAt time.Time
}

type timeRange struct{ from, to time.Time }

// armedTrigger is a fault that waits for a call.
type armedTrigger struct {
	call   string // empty: any call
	when   phase
	skip   int // number of calls to pass
	action func()
}

func (p *process) String() string { return fmt.Sprintf("%s/%d#%d", p.role, p.replica, p.number) }

// beforeCall is the gate before an outside call has any effect. It returns when the process may go
// on.
func (p *process) beforeCall(ctx context.Context, call string) error {
	if err := p.passGate(call, before); err != nil {
		return err
	}
	return ctx.Err() //nolint:wrapcheck // a freeze may have outlasted it
}

// passArrival is the gate at the arrival of a request. A process that froze meanwhile had sent the
// request, or had not.
func (p *process) passArrival(sent bool) error {
	if !sent {
		return p.passGate("", before)
	}
	if !p.alive() {
		return errDead
	}
	return nil
}

// afterCall is the gate after a call's effect, before its answer.
func (p *process) afterCall(call string) error { return p.passGate(call, after) }

func (p *process) passGate(call string, when phase) error {
	for first := true; ; first = false {
		p.mu.Lock()
		var t *armedTrigger
		if first {
			t = p.takeTrigger(call, when)
		}
		dead, thaw := p.dead, p.thaw
		p.mu.Unlock()
		switch {
		case t != nil:
			p.runTrigger(t, call)
			continue
		case dead:
			return errDead
		case thaw == nil:
			return nil
		}
		select {
		case <-thaw:
		case <-p.died:
		}
	}
}

// hitTrigger runs the armed fault if this is its call.
func (p *process) hitTrigger(call string, when phase) {
	p.mu.Lock()
	t := p.takeTrigger(call, when)
	p.mu.Unlock()
	if t != nil {
		p.runTrigger(t, call)
	}
}

// takeTrigger removes and returns the armed fault if this is its call. The caller holds the lock.
func (p *process) takeTrigger(call string, when phase) *armedTrigger {
	t := p.armedTrigger
	if t == nil || t.when != when || t.call != "" && t.call != call || call == "" {
		return nil
	}
	if t.skip > 0 {
		t.skip--
		return nil
	}
	p.armedTrigger = nil
	return t
}

func (p *process) runTrigger(t *armedTrigger, call string) {
	p.env.log.printf("%s reaches its trigger point %s %s", p, t.when, call)
	t.action()
}

// arm arms a fault, and replaces an armed one.
func (p *process) arm(t *armedTrigger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armedTrigger = t
}

// disarm removes an armed fault. It returns false if the fault has happened.
func (p *process) disarm(t *armedTrigger) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armedTrigger != t {
		return false
	}
	p.armedTrigger = nil
	return true
}

// kill ends the process as SIGKILL does. Its goroutines find out at their next call, and none of
// their calls has an effect from now on.
func (p *process) kill() bool {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return false
	}
	p.dead, p.disturbedAt = true, time.Now()
	p.mu.Unlock()
	close(p.died)
	p.bus.Kill()
	p.cancel()
	return true
}

// freeze stops the process as SIGSTOP does, until the returned function is called.
func (p *process) freeze() (wake func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.thaw != nil {
		return nil
	}
	thaw := make(chan struct{})
	p.thaw, p.disturbedAt = thaw, time.Now()
	p.frozen = append(p.frozen, timeRange{from: time.Now()})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.thaw, p.disturbedAt = nil, time.Now()
		p.frozen[len(p.frozen)-1].to = time.Now()
		close(thaw)
	}
}

// stop ends the process in order. It returns true once, to the caller that replaces the process,
// and false for a dead process.
func (p *process) stop() bool {
	p.mu.Lock()
	first := !p.dead && p.stopRequestedAt.IsZero()
	if first {
		p.stopRequestedAt = time.Now()
	}
	p.mu.Unlock()
	if first {
		p.cancel()
	}
	return first
}

// stoppedFor returns the time since the process was told to stop.
func (p *process) stoppedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopRequestedAt.IsZero() {
		return 0
	}
	return time.Since(p.stopRequestedAt)
}

// markEnded notes that the service has ended.
func (p *process) markEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// wasFrozen reports whether the process was frozen at some time between two instants.
func (p *process) wasFrozen(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frozen {
		if !f.from.After(to) && (f.to.IsZero() || !f.to.Before(from)) {
			return true
		}
	}
	return false
}

// hostTime returns the host clock's time.
func (p *process) hostTime() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.skew)
}

// draw fills out with random numbers from 0 to 1.
func (p *process) draw(out []float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range out {
		out[i] = p.rnd.Float64()
	}
}

func (p *process) noteDisturbance() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disturbedAt = time.Now()
}
