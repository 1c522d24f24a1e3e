package limit

import (
	"math"
	"time"
)

// Spare says that calls of an app may start although no fire of it waits in memory, while fires of
// it have retry-after times. Those were too late: the executor asks again for the soonest of them.
// It is an estimate like those times, and no permit.
type Spare struct {
	App   string
	Calls int // how many fires to ask again for, at least 1
}

const (
	// spareAhead is for how long the calls of a Spare last, beyond those that may start at once. It
	// is shorter than the shortest Hold of executors, so that these fires wait in memory.
	spareAhead = 200 * time.Millisecond
	// maxSpares is how many apps may have a Spare that the executor has not taken yet. Another one
	// is told of when its next call ends.
	maxSpares = 64
)

// Spare implements Admission.
func (l *Limiter) Spare() <-chan Spare { return l.spare }

// offerSpare tells the executor of an app of which a call has ended, if there is a Spare. The fires
// it asks again for no longer count as deferred, even if they are in another executor by now. So it
// is told no more often than there were fires.
func (l *Limiter) offerSpare(name string, a *app, now time.Time) {
	if l.closed || !a.list.empty() {
		return
	}
	deferred := 0
	for p := range a.list.deferred {
		deferred += a.list.deferred[p].count(now)
	}
	if deferred == 0 {
		return
	}
	if why := a.refuse(now, l); why != nil && why != unknownYet {
		return
	}
	calls := l.spareCalls(a, now)
	if calls == 0 {
		return
	}
	select {
	case l.spare <- Spare{App: name, Calls: calls}:
		a.sparedAt = now
	default:
		return
	}
	for p := range a.list.deferred {
		calls -= a.list.deferred[p].drop(calls, now)
	}
}

// spareCalls returns how many calls of an app may start at once and during spareAhead. More would
// be deferred again. Under a rate they are those of its tokens.
func (l *Limiter) spareCalls(a *app, now time.Time) int {
	ahead := spareAhead.Seconds()
	if rate := a.settings.Rate; rate > 0 {
		if now.Sub(a.sparedAt) < spareAhead {
			return 0
		}
		return int(math.Ceil(rate / float64(a.executors) * ahead))
	}
	free := l.share()
	if most := a.settings.Concurrent; most > 0 {
		free = min(free, most)
	}
	calls := a.ended.speed(now) * ahead
	if free < math.MaxInt { // else nothing can have been refused, but by limits that were removed
		calls += float64(free - a.inUse)
	}
	return int(math.Ceil(calls))
}
