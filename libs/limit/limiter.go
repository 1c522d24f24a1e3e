package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a Limiter.
type Options struct {
	SharedState SharedState
	Executor    string // unique name of this executor in the shared state
	// Share limits the concurrent calls of one app in this executor, whatever the app's own limit.
	// It keeps one app from using all capacity. 0 means no limit.
	Share int
	// Calls is how many calls this executor makes concurrently in all; 0 means no limit. No app may
	// have more calls than are left free. So apps with hanging endpoints leave capacity for others:
	// one alone has its Share, two have a third of Calls each, n of them 1/(n+1).
	Calls int
	// Timeout limits a Sync. After it the shared state counts as unavailable. The default is 250
	// ms.
	Timeout time.Duration
	// Now is the clock of retry-after times; default time.Now. It may be set: everything else goes by
	// the monotonic clock.
	Now        func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil means no metrics
}

// Ask is a request to start a call.
type Ask struct {
	App string
	// Returned means that the fire had a retry-after time before, whether it was held or deferred
	// until then.
	Returned bool
	// Readmitted means that the executor has looked for the fire, because calls of its app may start
	// sooner than expected.
	Readmitted bool
	// Expired means that the fire had a permit, which expired before its call could start. It had its
	// turn, so it waits in the list however long that takes.
	Expired  bool
	Priority Priority // decides by weight which waiting call starts first
	// Waiter is notified when the call may start, if that is expected within Hold. If Hold is 0,
	// the limiter returns a retry-after time instead, and fetches no permits for the call.
	Waiter Waiter
	Hold   time.Duration
}

// Admission is what executors use of a Limiter.
type Admission interface {
	Revising
	// Start asks whether a call of an app may start now. It never blocks. After an OK, or after
	// Waiter.Ready returned true, the caller must call Done or Cancel once.
	Start(a Ask) Decision
	// Done reports that a started call has ended.
	Done(app string)
	// Cancel reports that a call admitted at a time is not made. Another call gets its permit if that
	// is still valid.
	Cancel(app string, p Priority, admitted time.Time)
	// Set sets an app's limits, which apply at once. The zero Settings remove them.
	Set(app string, s Settings)
	// Close returns all waiting fires. After Close nothing waits: calls that cannot start get a
	// retry-after time.
	Close() []Waiter
	// Run fetches permits until ctx ends. Then it returns its permits to the shared state.
	Run(ctx context.Context) error
}

// Limiter enforces the limits in one executor. It is safe for concurrent use.
type Limiter struct {
	opts    Options
	metrics *metrics
	// wake, with capacity 1, tells Run that something waits or became active.
	wake  chan struct{}
	began chan struct{} // capacity 1, see Waiting

	mu       sync.Mutex
	apps     map[string]*app
	active   map[string]*app // apps that may want something from the shared state
	waiting  map[string]*app // apps with fires that wait or are deferred
	outage   outage
	closed   bool
	inUse    int // calls of all apps
	promised int // during a Revise, the calls of its Spares
}

var _ Admission = (*Limiter)(nil)

// New returns a limiter. It starts no goroutine.
func New(opts Options) (*Limiter, error) {
	if opts.SharedState == nil || opts.Executor == "" || opts.Share < 0 || opts.Calls < 0 {
		return nil, errors.New(
			"limiter options: SharedState and Executor are required, Share and Calls must not be negative",
		)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 250 * time.Millisecond
	}
	return &Limiter{
		opts:    opts,
		metrics: newMetrics(opts.Registerer),
		wake:    make(chan struct{}, 1),
		began:   make(chan struct{}, 1),
		apps:    map[string]*app{},
		active:  map[string]*app{},
		waiting: map[string]*app{},
	}, nil
}

// Start implements Admission.
func (l *Limiter) Start(a Ask) Decision {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.activate(a.App, now)
	if a.Readmitted {
		st.spares.answered(a.Priority)
	}
	why := st.refuse(now, l)
	if why == nil && !st.list.empty() {
		why = byQueue // queue behind the waiting fires; it may still be picked at once
	}
	if why == nil {
		st.started(now, st.unavailable)
		l.inUse++
		return Decision{OK: true}
	}
	l.metrics.refused(why.label)
	l.waits(a.App, st)
	wait := st.expectedWait(&a, why, now)
	if a.Expired || a.Readmitted && st.list.empty() {
		wait = 0 // it had its turn; or it was asked for, and no permits are fetched while none waits
	}
	if a.Hold <= 0 || l.closed || wait > a.Hold {
		at := l.opts.Now().Add(st.retryAfter(&a, why, wait, now))
		return Decision{At: at, Share: why == byShare}
	}
	if st.list.empty() {
		st.waitingSince, st.hold = now, 0
		signal(l.wake)
	}
	st.list.push(&a)
	st.hold = max(st.hold, a.Hold)
	if why == byQueue {
		l.pump(st, now)
	}
	return Decision{Waits: true}
}

// activate returns the state of an app, and marks it as active.
func (l *Limiter) activate(name string, now time.Time) *app {
	st := l.apps[name]
	if st == nil {
		st = newApp(Settings{}, now)
		l.apps[name] = st
	}
	if _, ok := l.active[name]; !ok {
		if len(l.active) == 0 || st.limited() {
			signal(l.wake)
		}
		l.active[name] = st
		if l.outage.whole && st.limited() {
			l.lose(st) // it need not wait for a Sync that fails, too
		}
	}
	return st
}

// Done implements Admission.
func (l *Limiter) Done(app string) { l.end(app, nil) }

// Cancel implements Admission.
func (l *Limiter) Cancel(app string, p Priority, admitted time.Time) {
	l.end(app, &permit{p, admitted})
}

// permit is a permit that was not used.
type permit struct {
	priority Priority
	admitted time.Time
}

// end counts a call as ended. The next waiting fire gets its call slot, and its unused token.
func (l *Limiter) end(name string, unused *permit) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.apps[name]
	if st == nil || st.inUse == 0 {
		return
	}
	st.inUse--
	l.inUse--
	if unused == nil {
		st.lastProgress = now
		st.ended.count(now)
	} else if st.settings.Rate > 0 && !st.unavailable && !now.After(st.tokensUntil) &&
		now.Sub(unused.admitted) <= TokenTTL { // tokensUntil may be that of later tokens
		st.order = append([]Priority{unused.priority}, st.order...)
	}
	l.pump(st, now)
}

// Close implements Admission.
func (l *Limiter) Close() (all []Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, st := range l.apps {
		all = append(all, st.list.drain()...)
	}
	return all
}

// Set implements Admission.
func (l *Limiter) Set(app string, s Settings) {
	now := time.Now()
	s = s.Resolved()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.apps[app]
	if st == nil {
		st = newApp(s, now)
		l.apps[app] = st
	}
	if st.settings != s {
		st.set(s, now)
		signal(l.wake)
		l.pump(st, now)
	}
	l.forget(app, st, now)
}

// forget drops the state of an app that has no limits, no calls and no waiting or deferred fires, and
// that the shared state does not know of this executor.
func (l *Limiter) forget(name string, st *app, now time.Time) {
	if !st.limited() && !st.registered && st.inUse == 0 && st.list.empty() &&
		st.list.countDeferred(now) == 0 {
		delete(l.apps, name)
		delete(l.active, name)
		delete(l.waiting, name)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
