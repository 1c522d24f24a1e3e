package sim

import (
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
)

// farthest is how far a host's clock jumps at the most.
const farthest = 2 * time.Second

// trapped is how long a trap waits for its call; then the fault comes without.
const trapped = 30 * time.Second

// befall lets a fault happen.
func (w *Environment) befall(f *fault) {
	w.pause(f.at)
	w.log.printf("FAULT: %s", f)
	switch f.kind {
	case crash:
		w.strike(f, func(p *process) { w.crash(p, f.lasts) })
	case restart:
		w.restart(w.at(f.role, f.place))
	case freeze:
		w.strike(f, func(p *process) { w.freeze(p, f.lasts) })
	case crashAll, freezeAll:
		w.sweepAway(f.role, f.kind == crashAll, f.lasts)
	case power, suspend:
		for _, r := range roles {
			w.sweepAway(r, f.kind == power, f.lasts)
		}
	case cutOff:
		p := w.at(f.role, f.place)
		p.sever(true)
		clock.Pause(w.ctx, f.lasts)
		p.sever(false)
	case skewClock:
		w.at(f.role, f.place).jump(time.Duration((2*f.much - 1) * float64(farthest)))
	default:
		w.spoil(f, true)
		clock.Pause(w.ctx, f.lasts)
		w.spoil(f, false)
		w.log.printf("%s is over", f.kind)
	}
}

// sweepAway kills or freezes all processes of a role.
func (w *Environment) sweepAway(r role, die bool, lasts time.Duration) {
	for place := range replicas {
		if p := w.at(r, place); die {
			w.crash(p, lasts)
		} else {
			w.freeze(p, lasts)
		}
	}
}

// strike does something to a process at once, or when it steps into a trap.
func (w *Environment) strike(f *fault, do func(p *process)) {
	p := w.at(f.role, f.place)
	if f.trap == nil {
		do(p)
		return
	}
	t := &trap{at: f.trap.call, when: f.trap.when, skip: f.trap.skip, then: func() { do(p) }}
	p.set(t)
	clock.Pause(w.ctx, min(trapped, w.plan.Length-f.at-f.lasts))
	if p.take(t) {
		do(p)
	}
}

// crash kills a process and starts another in its place after a while.
func (w *Environment) crash(p *process, down time.Duration) {
	if !p.kill() {
		return
	}
	w.log.printf("%s is killed", p)
	w.running.Go(func() {
		clock.Pause(w.ctx, down)
		if w.ctx.Err() == nil && w.at(p.role, p.place) == p {
			w.start(p.role, p.place)
		}
	})
}

// restart stops a process in order, and starts another beside it while it finishes what it has in
// hand. One that is dead is replaced anyway.
func (w *Environment) restart(p *process) {
	if !p.stop() {
		return
	}
	w.log.printf("%s is stopped", p)
	w.start(p.role, p.place)
}

func (w *Environment) freeze(p *process, d time.Duration) {
	wake := p.freeze()
	if wake == nil {
		return
	}
	w.log.printf("%s is frozen", p)
	w.running.Go(func() {
		clock.Pause(w.ctx, d)
		w.log.printf("%s wakes", p)
		wake()
	})
}

// sever cuts the process off from the store, or ends that.
func (p *process) sever(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.hurt = cut, time.Now()
}

// jump moves the host's clock.
func (p *process) jump(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew += by
}

// spoil makes a part that all share misbehave, or behave again.
func (w *Environment) spoil(f *fault, bad bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	share := func(most float64) float64 {
		if !bad {
			return 0
		}
		return most * f.much
	}
	switch f.kind { //nolint:exhaustive // the others befall processes, elsewhere
	case windowAway:
		w.window.SetAway(bad)
	case windowFails:
		w.weather.window = share(.5)
	case windowWiped:
		if bad {
			w.window.Wipe()
		}
	case marksLost:
		w.weather.marksLost = share(1)
	case busBad:
		w.busFaults.Duplicate, w.busFaults.Reorder, w.busFaults.Drop = share(
			.3,
		), share(
			.3,
		), share(
			.1,
		)
		w.busFaults.Delay, w.busFaults.MaxDelay = share(.3), 5*time.Second
		w.broker.SetFaults(w.busFaults)
	case busLost:
		w.busFaults.Drop = 0
		if bad {
			w.busFaults.Drop = 1
		}
		w.broker.SetFaults(w.busFaults)
	case busFails:
		w.busFaults.FailPublish, w.busFaults.FailAfterPublish = share(.5), share(.5)
		w.broker.SetFaults(w.busFaults)
	case topicLost:
		if bad {
			topics := []bus.Topic{
				bus.Slices,
				bus.TasksNormal,
				bus.TasksNormal,
				bus.TasksLow,
				bus.TimersChanged,
			}
			w.broker.Purge(topics[int(f.much*float64(len(topics)))])
		}
	case busAway:
		if bad {
			w.broker.Pause()
		} else {
			w.broker.Resume()
		}
	case storeFails:
		w.weather.store.read, w.weather.store.before, w.weather.store.after = share(
			.2,
		), share(
			.2,
		), share(
			.2,
		)
	case storeSlow:
		w.weather.store.slow = good.slow + share(.3)
	case storeAway, storeHangs:
		w.outage(bad, f.kind == storeHangs)
	}
}

// outage begins or ends the store's being away. Of two that overlap the first to end ends both.
func (w *Environment) outage(begin, hangs bool) {
	switch {
	case begin && w.weather.away == nil:
		w.weather.away, w.weather.hangs = make(chan struct{}), hangs
	case !begin && w.weather.away != nil:
		close(w.weather.away)
		w.weather.away = nil
	}
}
