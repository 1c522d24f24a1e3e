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

// phase is a moment of a call to the outside.
type phase uint8

const (
	before phase = iota // nothing of it has been done
	after               // it is done, and the answer is on its way
)

func (p phase) String() string { return [...]string{"before", "after"}[p] }

var errDead = errors.New("this process is dead")

// process is one running service with everything of the outside that it reaches: it reaches nothing
// but through enter and leave, so that it can be killed and frozen between any two of its effects.
// It runs one service; its place is taken by another when it dies.
type process struct {
	world *Environment
	role  role
	place int
	n     uint16 // tells processes apart; callbacks come from it as their port
	bus   *membus.Bus
	end   context.CancelFunc
	died  chan struct{}

	mu     sync.Mutex
	rnd    *rand.Rand
	dead   bool
	gone   bool          // its service has ended
	told   time.Time     // when it was told to stop in order; zero: it was not
	thaw   chan struct{} // nil: not frozen; closed at the end of the freeze
	trap   *trap
	cut    bool          // from the store
	skew   time.Duration // of the host's clock
	frozen []stretch
	tasks  map[timer.FireID]int // in the hands of its handlers, not acknowledged
	// when something last befell it that may have kept it from renewing its session.
	hurt time.Time
}

type stretch struct{ from, to time.Time }

// trap is a fault that waits for a certain call.
type trap struct {
	at   string // the call; empty: any
	when phase
	skip int // so many of them pass
	then func()
}

func (p *process) String() string { return fmt.Sprintf("%s/%d#%d", p.role, p.place, p.n) }

// enter is passed before anything of a call to the outside is done: it returns when the process may
// go on.
func (p *process) enter(ctx context.Context, call string) error {
	if err := p.pass(call, before); err != nil {
		return err
	}
	return ctx.Err() //nolint:wrapcheck // a freeze may have outlasted it
}

// underway is passed when a request arrives. Of a process that froze meanwhile it had been sent, or
// had not.
func (p *process) underway(sent bool) error {
	if !sent {
		return p.pass("", before)
	}
	if !p.alive() {
		return errDead
	}
	return nil
}

// leave is passed when a call is done and its answer comes back.
func (p *process) leave(call string) error { return p.pass(call, after) }

func (p *process) pass(call string, when phase) error {
	for first := true; ; first = false {
		p.mu.Lock()
		var t *trap
		if first {
			t = p.sprung(call, when)
		}
		dead, thaw := p.dead, p.thaw
		p.mu.Unlock()
		switch {
		case t != nil:
			p.snap(t, call)
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

// spring lets the trap snap when its call comes by.
func (p *process) spring(call string, when phase) {
	p.mu.Lock()
	t := p.sprung(call, when)
	p.mu.Unlock()
	if t != nil {
		p.snap(t, call)
	}
}

// sprung takes the trap that a call meets. The caller holds the lock.
func (p *process) sprung(call string, when phase) *trap {
	t := p.trap
	if t == nil || t.when != when || t.at != "" && t.at != call || call == "" {
		return nil
	}
	if t.skip > 0 {
		t.skip--
		return nil
	}
	p.trap = nil
	return t
}

func (p *process) snap(t *trap, call string) {
	p.world.log.printf("%s meets its trap %s %s", p, t.when, call)
	t.then()
}

// set sets a trap, in place of another.
func (p *process) set(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
}

// take removes a trap that has not snapped.
func (p *process) take(t *trap) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap != t {
		return false
	}
	p.trap = nil
	return true
}

// kill ends the process as SIGKILL does. Its goroutines find out at their next call, and no call of
// theirs has an effect from now on.
func (p *process) kill() bool {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return false
	}
	p.dead, p.hurt = true, time.Now()
	p.mu.Unlock()
	close(p.died)
	p.bus.Kill()
	p.end()
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
	p.thaw, p.hurt = thaw, time.Now()
	p.frozen = append(p.frozen, stretch{from: time.Now()})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.thaw, p.hurt = nil, time.Now()
		p.frozen[len(p.frozen)-1].to = time.Now()
		close(thaw)
	}
}

// stop ends the process in order, if it lives and was not told to before: who gets true replaces
// it.
func (p *process) stop() bool {
	p.mu.Lock()
	first := !p.dead && p.told.IsZero()
	if first {
		p.told = time.Now()
	}
	p.mu.Unlock()
	if first {
		p.end()
	}
	return first
}

// stoppedFor returns how long ago the process was told to stop.
func (p *process) stoppedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.IsZero() {
		return 0
	}
	return time.Since(p.told)
}

// quit notes that the service has ended.
func (p *process) quit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// wasFrozen tells whether the process was frozen at some time of a stretch.
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

// wall is the host's clock.
func (p *process) wall() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.skew)
}

// draw gives so many numbers from 0 to 1.
func (p *process) draw(out []float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range out {
		out[i] = p.rnd.Float64()
	}
}

func (p *process) suffer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurt = time.Now()
}
