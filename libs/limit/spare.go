package limit

import (
	"math"
	"time"
)

// Spare says that calls of an app may start although no fire of it waits in memory, while fires of
// it have retry-after times. Those were too late: the executor asks again for some of the fires, as
// Returned. It is an estimate like those times, and no permit.
type Spare struct {
	App   string
	Calls int // how many fires to ask for, at least 1; it reports those that it does not find
}

const (
	// spareAhead is for how long the calls of a Spare last, beyond those that may start at once. It
	// is shorter than the shortest Hold of executors, so that these fires wait in memory.
	spareAhead = 200 * time.Millisecond
	// askWithin is how long the fires of a Spare are expected to ask. If they do not, for example
	// because they are called by another executor, others are asked for.
	askWithin = time.Second
	// maxSpares is how many Spares the executor may have left in the channel. An app without one is
	// told of when its next call ends.
	maxSpares = 64
)

// Spare implements Admission.
func (l *Limiter) Spare() <-chan Spare { return l.spare }

// Unfound implements Admission.
func (l *Limiter) Unfound(app string, fires int) {
	now := l.opts.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.apps[app]
	if a == nil {
		return
	}
	a.asking = max(0, a.asking-fires)
	// They may be found next time, when they have reached the store. If they are gone for good,
	// nobody looks for them once the last of the retry-after times has passed.
	fires = min(fires, a.counted)
	a.counted -= fires
	if d := &a.list.deferred[Normal]; fires > 0 && a.deferredUntil.After(now) {
		d.count(now)
		d.addMany(a.deferredUntil, fires)
	}
	l.offerSpare(app, a, now)
}

// offerSpare tells the executor of an app of which a call has ended, if there is a Spare. The fires
// it asks for no longer count as deferred, unless it reports that it has not found them.
func (l *Limiter) offerSpare(name string, a *app, now time.Time) {
	if l.closed || !a.list.empty() {
		return
	}
	if a.list.countDeferred(now) == 0 {
		return
	}
	if why := a.refuse(now, l); why != nil && why != unknownYet {
		return
	}
	calls := l.spareCalls(a, now)
	if calls <= 0 {
		return
	}
	select {
	case l.spare <- Spare{App: name, Calls: calls}:
		a.sparedAt = now
		a.asking += calls
	default:
		return
	}
	for p := range a.list.deferred {
		n := a.list.deferred[p].drop(calls, now)
		calls -= n
		a.counted += n
	}
}

// spareCalls returns how many calls of an app may start at once and during spareAhead, without those
// for which fires were asked. More would be deferred again. Under a rate they are those of its
// tokens.
func (l *Limiter) spareCalls(a *app, now time.Time) int {
	since := now.Sub(a.sparedAt)
	if since > askWithin || since < 0 {
		a.asking = 0
	}
	executors, ahead := float64(a.executors), spareAhead.Seconds()
	if rate := a.settings.Rate; rate > 0 {
		if since >= 0 && since < spareAhead {
			return 0
		}
		return int(math.Ceil(rate/executors*ahead)) - a.asking
	}
	free := l.share()
	if most := a.settings.Concurrent; most > 0 {
		free = min(free, int(math.Ceil(float64(most)/executors)))
	}
	calls := a.ended.speed(now) * ahead
	if free < math.MaxInt { // else nothing can have been refused, but by limits that were removed
		calls += float64(free - a.inUse)
	}
	return int(math.Ceil(calls)) - a.asking
}
