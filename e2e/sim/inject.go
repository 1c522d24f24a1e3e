package sim

import (
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
)

// maxClockJump is the greatest jump of a host's clock.
const maxClockJump = 2 * time.Second

// triggerWait is how long an armed fault waits for its call. Then the fault happens without it.
const triggerWait = 30 * time.Second

// inject injects a fault.
func (env *Environment) inject(f *fault) {
	env.pauseUntil(f.at)
	env.log.printf("FAULT: %s", f)
	switch f.kind {
	case crash:
		env.injectInto(f, func(p *process) { env.crash(p, f.duration) })
	case restart:
		env.restart(env.processAt(f.role, f.replica))
	case freeze:
		env.injectInto(f, func(p *process) { env.freeze(p, f.duration) })
	case crashAll, freezeAll:
		env.injectAll(f.role, f.kind == crashAll, f.duration)
	case power, suspend:
		for _, r := range roles {
			env.injectAll(r, f.kind == power, f.duration)
		}
	case cutOff:
		p := env.processAt(f.role, f.replica)
		p.setCutOff(true)
		clock.Pause(env.ctx, f.duration)
		p.setCutOff(false)
	case skewClock:
		env.processAt(f.role, f.replica).
			shiftClock(time.Duration((2*f.severity - 1) * float64(maxClockJump)))
	case windowUnavailable, windowFails, windowFlushed, entriesLost,
		busBad, busFails, busUnavailable, busLost, topicLost,
		storeFails, storeSlow, storeUnavailable, storeHangs:
		env.setSharedFault(f, true)
		clock.Pause(env.ctx, f.duration)
		env.setSharedFault(f, false)
		env.log.printf("%s is over", f.kind)
	default:
		env.failf("unknown fault %q", f.kind)
	}
}

// injectAll kills or freezes all processes of a role.
func (env *Environment) injectAll(r role, die bool, duration time.Duration) {
	for replica := range replicas {
		if p := env.processAt(r, replica); die {
			env.crash(p, duration)
		} else {
			env.freeze(p, duration)
		}
	}
}

// injectInto injects a fault into a process at once, or when the process reaches the trigger point.
func (env *Environment) injectInto(f *fault, do func(p *process)) {
	p := env.processAt(f.role, f.replica)
	if f.triggerPoint == nil {
		do(p)
		return
	}
	t := &armedTrigger{
		call:   f.triggerPoint.call,
		when:   f.triggerPoint.when,
		skip:   f.triggerPoint.skip,
		action: func() { do(p) },
	}
	p.arm(t)
	clock.Pause(env.ctx, min(triggerWait, env.plan.Length-f.at-f.duration))
	if p.disarm(t) {
		do(p)
	}
}

// crash kills a process and later starts another in its place.
func (env *Environment) crash(p *process, down time.Duration) {
	if !p.kill() {
		return
	}
	env.log.printf("%s is killed", p)
	env.running.Go(func() {
		clock.Pause(env.ctx, down)
		if env.ctx.Err() == nil && env.processAt(p.role, p.replica) == p {
			env.start(p.role, p.replica)
		}
	})
}

// restart stops a process in order and starts another at once, while the first finishes its calls
// in flight. It does nothing if the process is dead: another replaces it anyway.
func (env *Environment) restart(p *process) {
	if !p.stop() {
		return
	}
	env.log.printf("%s is stopped", p)
	env.start(p.role, p.replica)
}

func (env *Environment) freeze(p *process, d time.Duration) {
	wake := p.freeze()
	if wake == nil {
		return
	}
	env.log.printf("%s is frozen", p)
	env.running.Go(func() {
		clock.Pause(env.ctx, d)
		env.log.printf("%s is resumed", p)
		wake()
	})
}

// setCutOff cuts the process off from the store, or reconnects it.
func (p *process) setCutOff(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff, p.disturbedAt = cut, time.Now()
}

// shiftClock shifts the host's clock.
func (p *process) shiftClock(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew += by
}

// setSharedFault starts or ends a fault of a shared part.
func (env *Environment) setSharedFault(f *fault, active bool) {
	env.mu.Lock()
	defer env.mu.Unlock()
	share := func(most float64) float64 {
		if !active {
			return 0
		}
		return most * f.severity
	}
	switch f.kind { //nolint:exhaustive // inject handles the faults of processes
	case windowUnavailable:
		env.window.SetUnavailable(active)
	case windowFails:
		env.conditions.windowErrors = share(.5)
	case windowFlushed:
		if active {
			env.window.Flush()
		}
	case entriesLost:
		env.conditions.entriesLost = share(1)
	case busBad:
		env.busFaults.Duplicate, env.busFaults.Reorder, env.busFaults.Drop = share(
			.3,
		), share(
			.3,
		), share(
			.1,
		)
		env.busFaults.Delay, env.busFaults.MaxDelay = share(.3), 5*time.Second
		env.broker.SetFaults(env.busFaults)
	case busLost:
		env.busFaults.Drop = 0
		if active {
			env.busFaults.Drop = 1
		}
		env.broker.SetFaults(env.busFaults)
	case busFails:
		env.busFaults.FailPublish, env.busFaults.FailAfterPublish = share(.5), share(.5)
		env.broker.SetFaults(env.busFaults)
	case topicLost:
		if active {
			topics := []bus.Topic{
				bus.Slices,
				bus.TasksNormal,
				bus.TasksNormal,
				bus.TasksLow,
				bus.TimersChanged,
			}
			env.broker.Purge(topics[int(f.severity*float64(len(topics)))])
		}
	case busUnavailable:
		if active {
			env.broker.Pause()
		} else {
			env.broker.Resume()
		}
	case storeFails:
		env.conditions.store.read, env.conditions.store.before, env.conditions.store.after = share(
			.2,
		), share(
			.2,
		), share(
			.2,
		)
	case storeSlow:
		env.conditions.store.slow = healthy.slow + share(.3)
	case storeUnavailable, storeHangs:
		env.setStoreOutage(active, f.kind == storeHangs)
	}
}

// setStoreOutage begins or ends an outage of the store. If two overlap, the first to end ends both.
func (env *Environment) setStoreOutage(begin, hangs bool) {
	switch {
	case begin && env.conditions.outage == nil:
		env.conditions.outage, env.conditions.hangs = make(chan struct{}), hangs
	case !begin && env.conditions.outage != nil:
		close(env.conditions.outage)
		env.conditions.outage = nil
	}
}
