package limit

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Waiter is a fire that waits in memory until it may start.
type Waiter interface {
	// Ready reports that the fire may start now. The executor must call Done or Cancel afterwards.
	// If the fire is no longer wanted, Ready returns false, and the permit goes to the next. Ready
	// is called under the limiter's lock: it must not block or call the limiter.
	Ready() bool
}

// gatherDelay is how long the limiter gathers simultaneous arrivals before a Sync. It is also the
// minimum retry-after delay.
const gatherDelay = 5 * time.Millisecond

// waitList holds the fires of one app that wait in one executor. Only it orders them. A Picker,
// here or in the shared state, chooses the priority. Within a priority, returned fires go before
// new ones, each in order of arrival.
type waitList struct {
	fires    [Priorities]FIFO[Waiter]
	deferred [Priorities]deferred
	// picker chooses the priority if the shared state does not: without a rate, or while it is
	// unavailable.
	picker Picker
}

func (w *waitList) len() (n int) {
	for p := range w.fires {
		n += w.fires[p].Len()
	}
	return n
}

func (w *waitList) empty() bool { return w.len() == 0 }

// countDeferred counts the fires with a retry-after time in the future.
func (w *waitList) countDeferred(now time.Time) (n int) {
	for p := range w.deferred {
		n += w.deferred[p].count(now)
	}
	return n
}

func (w *waitList) push(a *Ask) {
	if a.Returned {
		w.fires[a.Priority].PushFirst(a.Waiter)
	} else {
		w.fires[a.Priority].Push(a.Waiter)
	}
}

// pick returns the priority to serve next. At least one fire waits.
func (w *waitList) pick() Priority {
	var waiting [Priorities]bool
	for p := range waiting {
		waiting[p] = w.fires[p].Len() > 0
	}
	p, _ := w.picker.Next(waiting)
	return p
}

// popLast removes the fire that starts last, as the weights have it, and returns its priority. At
// least one fire waits.
func (w *waitList) popLast() (Waiter, Priority) {
	weights, last, most := DefaultWeights(), Priority(0), 0.0
	for p := range w.fires {
		if rounds := float64(w.fires[p].Len()) / float64(weights[p]); rounds > most {
			last, most = Priority(p), rounds
		}
	}
	return w.fires[last].PopLast(), last
}

// drain removes and returns all fires.
func (w *waitList) drain() (all []Waiter) {
	for p := range w.fires {
		all = append(all, w.fires[p].Drain()...)
	}
	return all
}

// before returns how many fires of its own priority start before a new one: the known waiting ones,
// in memory and in the store. A returned fire goes before those that are still in the store.
func (w *waitList) before(ask *Ask, now time.Time) int {
	if ask.Returned {
		return w.fires[ask.Priority].LenFirst()
	}
	return w.fires[ask.Priority].Len() + w.deferred[ask.Priority].count(now)
}

// startsBefore estimates how many calls of the app start before one of a priority, if own fires of
// that priority do. It adds as many fires of other priorities as their weights admit meanwhile.
func (w *waitList) startsBefore(of Priority, own int, now time.Time) float64 {
	weights, all := DefaultWeights(), 0.0
	rounds := float64(own+1) / float64(weights[of])
	for i, weight := range weights {
		if p := Priority(i); p != of {
			all += min(float64(w.fires[p].Len()+w.deferred[p].count(now)), rounds*float64(weight))
		}
	}
	return float64(own) + all
}

// deferred counts the fires with a retry-after time in the future.
type deferred struct {
	n    int
	from time.Time     // by the monotonic clock
	by   map[int64]int // number by tenth of a second since from
	past int64         // no count lies before it

	// The last search for a gap was in the step searched, and ended at the step gap. Other searches
	// in that step begin there.
	searched, gap int64
}

// drop forgets up to n fires, the earliest first.
func (d *deferred) drop(n int, now time.Time) {
	if d.count(now) == 0 || n == 0 {
		return
	}
	for _, at := range slices.Sorted(maps.Keys(d.by)) {
		k := min(d.by[at], n)
		if d.by[at] -= k; d.by[at] == 0 {
			delete(d.by, at)
		}
		d.n -= k
		if n -= k; n == 0 {
			return
		}
	}
}

const (
	deferredStep = 100 * time.Millisecond
	// deferredSteps is how many steps a retry-after time lies ahead at most.
	deferredSteps = int64(MaxWait/deferredStep) + 1
)

// step returns the tenth of a second of an instant.
func (d *deferred) step(at time.Time) int64 { return int64(at.Sub(d.from) / deferredStep) }

// add adds a fire, after a count.
func (d *deferred) add(at time.Time) {
	if d.by == nil {
		d.by = make(map[int64]int)
	}
	d.by[max(d.step(at), d.past)]++
	d.n++
}

func (d *deferred) count(now time.Time) int {
	step := d.step(now)
	if d.n == 0 || step-d.past > 2*deferredSteps { // after a long time all of them are past
		*d = deferred{from: now}
		return 0
	}
	for d.past < step {
		d.past++
		d.n -= d.by[d.past-1]
		delete(d.by, d.past-1)
	}
	return d.n
}

// nextGap returns the first instant, from one on, at which fewer than perStep fires return in a step. It
// returns false if there is none until MaxWait. Where more return, the others get new times then, and
// take no room after it.
func (d *deferred) nextGap(at, now time.Time, perStep float64) (time.Time, bool) {
	if d.count(now) == 0 {
		return at, true
	}
	if d.searched != d.past { // not each time: it may pass thousands of steps, and thousands may ask
		d.searched, d.gap = d.past, d.past
	}
	free, first, end := 0.0, d.step(at), d.past+deferredSteps
	for ; d.gap < end; d.gap++ {
		there := d.by[d.gap]
		free = max(min(free, 0)+perStep-float64(there), -1)
		if free > 0 && d.gap >= first {
			steps := float64(d.gap) + float64(there)/max(perStep, 1)
			return later(at, d.from.Add(time.Duration(steps*float64(deferredStep)))), true
		}
	}
	return time.Time{}, false
}

// expectedWait estimates how long a fire waits that cannot start now.
func (a *app) expectedWait(ask *Ask, why *refusal, now time.Time) time.Duration {
	own := a.list.before(ask, now)
	ahead, first := a.list.startsBefore(ask.Priority, own, now), time.Duration(0)
	switch {
	case why == byTokens:
		first = max(a.nextToken.Sub(now), 0)
	case why.known:
		ahead++
	case a.list.empty() || a.nextToken.IsZero(): // the shared state may have a whole burst
		ahead -= float64(max(a.settings.Burst, a.settings.Concurrent))
	}
	return first + time.Duration(
		min(max(ahead, 0)/a.startRate(now, why), 2*MaxWait.Seconds())*float64(time.Second),
	)
}

// retryAfter returns after what time a deferred fire must ask again. That is before the expected
// start, and the fire waits the rest in the list. So each priority has fires in the list while any
// are due, and the order is decided when permits arrive.
//
// A returned fire that finds no place in the list asks again when others leave room for it. All such
// fires at the time when the list has room would find none again, and again.
func (a *app) retryAfter(
	ask *Ask,
	why *refusal,
	expectedWait time.Duration,
	now time.Time,
) time.Duration {
	wait, ok := expectedWait-min(expectedWait, ask.Hold)/2, expectedWait <= MaxWait
	if ok && ask.Returned {
		var at time.Time
		at, ok = a.list.deferred[ask.Priority].nextGap(
			now.Add(wait), now, a.returnRate(ask.Priority, why, now)*deferredStep.Seconds(),
		)
		wait = at.Sub(now)
	}
	if !ok {
		wait = MaxWait - time.Duration(rand.Int64N(int64(MaxWait)/4))
	}
	wait = min(max(wait, gatherDelay), MaxWait)
	a.list.deferred[ask.Priority].count(now)
	a.list.deferred[ask.Priority].add(now.Add(wait))
	a.spares.lookSoon(now)
	return wait
}

// returnRate is how many fires of a priority per second may return that find no place in the list. It
// is what can start in all executors: only this one may have such fires, and they may return to any.
func (a *app) returnRate(p Priority, why *refusal, now time.Time) float64 {
	own := a.list.fires[p].Len() + a.list.deferred[p].count(now)
	part := float64(own+1) / (a.list.startsBefore(p, own, now) + 1)
	return a.startRate(now, why) * float64(a.executors) * part
}

// pump starts waiting fires of an app while there are permits.
func (l *Limiter) pump(a *app, now time.Time) {
	for !a.list.empty() && a.refuse(now, l) == nil {
		p := a.next()
		if !a.list.fires[p].Pop().Ready() {
			continue
		}
		a.started(now, a.unavailable)
		l.inUse++
	}
}

// next returns the priority to serve next: that of the next token, if such a fire still waits. At
// least one fire waits.
func (a *app) next() Priority {
	if len(a.order) > 0 && a.list.fires[a.order[0]].Len() > 0 {
		return a.order[0]
	}
	return a.list.pick()
}

// startRate estimates how many calls per second can start here, from this executor's part of the
// rate and from the calls that ended lately.
func (a *app) startRate(now time.Time, why *refusal) float64 {
	const (
		// slowest is one in 5 s: nobody knows when a hanging endpoint recovers.
		slowest = 0.2
		// soonest is the assumed duration of a call, until it lasts longer.
		soonest = 100 * time.Millisecond
	)
	startRate := math.Inf(1)
	if a.settings.Rate > 0 {
		startRate = a.settings.Rate / float64(a.executors)
	}
	if why == bySlots || why == byShare || why == byUnavailable && a.settings.Concurrent > 0 ||
		math.IsInf(startRate, 1) {
		since := soonest
		if a.inUse > 0 {
			since = max(now.Sub(a.lastProgress), soonest)
		}
		calls := max(a.inUse, 1)
		if why != byShare { // else no more can run here, whatever the limit
			calls = max(calls, a.settings.Concurrent/a.executors)
		}
		running := float64(calls) / since.Seconds()
		startRate = min(startRate, max(a.ended.speed(now), running, slowest))
	}
	return max(startRate, 1e-3)
}
