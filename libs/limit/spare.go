package limit

import (
	"math"
	"time"
)

// Spare says that calls of an app may start, while fires of it have retry-after times. Those were
// too late: the executor asks again for some of the fires, as Readmitted, and reports by Found. It
// is an estimate like those times, and no permit.
type Spare struct {
	App   string
	Calls int // how many fires to ask for, at least 1
}

// Deferral is a fire that has left the wait list of its app, because its turn comes much later than
// expected. It is the caller's, and must ask again at At.
type Deferral struct {
	Waiter Waiter
	At     time.Time
	Share  bool // as in Decision
}

// Revision is what the limiter would answer differently by now.
type Revision struct {
	Spares    []Spare
	Deferrals []Deferral
}

// Revising is the part of Admission that corrects the estimates of Start.
type Revising interface {
	// Waiting receives when fires begin to wait or to be deferred.
	Waiting() <-chan struct{}
	// Revise looks again at all fires that wait or are deferred. The executor calls it every
	// ReviseEvery while more is true, and then after Waiting received.
	Revise() (r Revision, more bool)
	// Found reports how many fires of a Spare were found, or NotLooked. The app has no other Spare
	// before.
	Found(s Spare, fires int)
	// NotAsked reports that a fire of an app was found, and will not ask.
	NotAsked(app string, p Priority)
}

// NotLooked is the number of fires of a Spare for which nobody had time to look.
const NotLooked = -1

const (
	// ReviseEvery is how often an executor revises while fires wait.
	ReviseEvery = 50 * time.Millisecond
	// spareAhead is for how long the calls of a Spare last, beyond those that may start at once. It
	// is shorter than the shortest Hold of executors, so that these fires wait in memory.
	spareAhead = 200 * time.Millisecond
	// askWithin is how long fires that were found are expected to take until they ask. Some never
	// do, for example because the breaker of their endpoint is open.
	askWithin = 500 * time.Millisecond
	// Fires that were not found are looked for again after lookAgainAfter, because they may not have
	// reached the store yet. While none is found, that time doubles up to lookAgainAtMost.
	lookAgainAfter  = 100 * time.Millisecond
	lookAgainAtMost = 5 * time.Second
	// tooLong is how many times longer than its Hold a fire is expected to wait that leaves the wait
	// list. Estimates vary.
	tooLong = 2
	// maxDeferrals and maxSpares limit what one Revise, which holds the lock, returns.
	maxDeferrals = 5000
	maxSpares    = 100
)

// spares is what one app knows of its Spares.
type spares struct {
	searching bool // there was a Spare, and Found was not called yet
	asked     []asked
	left      [Priorities]int // fires that count as deferred, and were found
	lookAt    time.Time       // no Spare before that
	pause     time.Duration   // between the last two looks that found nothing
}

// asked is how many fires were asked for at a time and have not asked themselves yet.
type asked struct {
	at    time.Time
	fires int
}

// Waiting implements Admission.
func (l *Limiter) Waiting() <-chan struct{} { return l.began }

// waits notes that fires of an app wait or are deferred.
func (l *Limiter) waits(name string, a *app) {
	if _, ok := l.waiting[name]; !ok {
		l.waiting[name] = a
		signal(l.began)
	}
}

// Revise implements Admission.
func (l *Limiter) Revise() (r Revision, more bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return r, false
	}
	defer func() { l.promised = 0 }()
	for name, a := range l.waiting {
		a.drop(now)
		deferred := a.list.countDeferred(now)
		if deferred == 0 && a.list.empty() {
			delete(l.waiting, name)
			continue
		}
		r.Deferrals = l.shorten(a, r.Deferrals, now)
		if len(r.Spares) == maxSpares ||
			a.spares.searching { // a search may take longer than askWithin
			continue
		}
		open := a.spares.open(now)
		if calls := min(l.spareCalls(a, now), deferred) - open; calls > 0 {
			a.spares.searching = true
			a.spares.asked = append(a.spares.asked, asked{now, calls})
			l.promised += calls
			r.Spares = append(r.Spares, Spare{App: name, Calls: calls})
		}
	}
	return r, len(l.waiting) > 0
}

// Found implements Admission.
func (l *Limiter) Found(s Spare, fires int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.apps[s.App]
	if a == nil || !a.spares.searching {
		return
	}
	a.spares.found(s.Calls, fires, now)
}

// drop forgets deferred fires that were found since the last time.
func (a *app) drop(now time.Time) {
	for p, n := range a.spares.left {
		a.list.deferred[p].drop(n, now)
		a.spares.left[p] = 0
	}
}

// NotAsked implements Admission.
func (l *Limiter) NotAsked(app string, p Priority) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.apps[app]; a != nil {
		a.spares.answered(p)
	}
}

func (s *spares) found(wanted, fires int, now time.Time) {
	s.searching = false
	if n := len(s.asked); n > 0 {
		last := &s.asked[n-1]
		last.at, last.fires = now, max(0, last.fires-(wanted-max(0, fires)))
	}
	switch {
	case fires == NotLooked:
		return
	case fires == wanted:
		s.pause, s.lookAt = 0, time.Time{}
		return
	case fires > 0:
		s.pause = lookAgainAfter // others may look meanwhile
	default:
		s.pause = min(max(2*s.pause, lookAgainAfter), lookAgainAtMost)
	}
	s.lookAt = now.Add(s.pause)
}

// lookSoon ends a long pause, because there may be more fires to find, or more calls.
func (s *spares) lookSoon(now time.Time) {
	if soon := now.Add(lookAgainAfter); s.lookAt.After(soon) {
		s.pause, s.lookAt = 0, soon
	}
}

// answered notes that a fire which was found has asked, or never will.
func (s *spares) answered(p Priority) {
	s.left[p]++
	for i := range s.asked {
		if s.asked[i].fires > 0 {
			s.asked[i].fires--
			return
		}
	}
}

// open returns how many fires are expected to ask soon.
func (s *spares) open(now time.Time) (n int) {
	kept := s.asked[:0]
	for _, a := range s.asked {
		if age := now.Sub(a.at); a.fires > 0 && age >= 0 && age < askWithin {
			kept = append(kept, a)
			n += a.fires
		}
	}
	s.asked = kept
	return n
}

// spareCalls returns how many calls of an app may start at once and during spareAhead, without those
// for which fires wait. More would be deferred again.
func (l *Limiter) spareCalls(a *app, now time.Time) int {
	if wait := a.spares.lookAt.Sub(now); wait > 0 && wait <= lookAgainAtMost {
		return 0
	}
	why := a.refuse(now, l)
	calls := math.MaxInt
	most := l.share()
	if c := a.settings.Concurrent; c > 0 {
		most = min(most, int(math.Ceil(float64(c)/float64(a.executors))))
	}
	if most < math.MaxInt { // else nothing is refused, but by limits that were removed
		free := most - a.inUse
		if why != nil && why.known && why != byTokens {
			free = min(free, 0) // the others have it
		}
		calls = free + int(a.ended.speed(now)*spareAhead.Seconds())
	}
	if rate := a.settings.Rate; rate > 0 {
		soon := int(rate / float64(a.executors) * spareAhead.Seconds())
		if soon == 0 && (why != byTokens || a.nextToken.Sub(now) <= spareAhead) {
			soon = 1
		}
		calls = min(calls, soon)
	}
	return calls - a.list.len()
}

// shorten defers those waiting fires of an app whose turn comes much later than when they asked, for
// example because its calls take longer now. They would fill the memory of all apps for long.
func (l *Limiter) shorten(a *app, to []Deferral, now time.Time) []Deferral {
	why := a.refuse(now, l)
	if a.list.empty() || why == nil || !why.known {
		return to
	}
	rate := a.startRate(now, why)
	most := int(min(tooLong*a.hold.Seconds()*rate, math.MaxInt32)) + 1
	for a.list.len() > most && len(to) < maxDeferrals {
		w, p := a.list.popLast()
		wait := time.Duration(
			min(float64(a.list.len()+1)/rate, 2*MaxWait.Seconds()) * float64(time.Second),
		)
		ask := Ask{Priority: p, Hold: a.hold}
		at := l.opts.Now().Add(a.retryAfter(&ask, why, wait, now))
		to = append(to, Deferral{Waiter: w, At: at, Share: why == byShare})
	}
	return to
}
