package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options of a limiter.
type Options struct {
	SharedState SharedState
	Executor    string // this executor's name in the ledger, different from every other's
	// Share is how many calls of one app may run in this executor at once, whatever the app's own
	// limit is; 0: no bound. It keeps one app from taking all hands.
	Share int
	// Calls is how many calls this executor makes at once in all; 0: no bound. No app may have more
	// than are left free, so that a few apps whose endpoints hang leave something for the others:
	// one alone has its Share, two have a third of Calls each, n of them 1/(n+1).
	Calls      int
	Timeout    time.Duration    // of an exchange; default 250 ms: then the ledger counts as away
	Now        func() time.Time // default time.Now
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Ask is a question to the limiter.
type Ask struct {
	App string
	// Returned: the fire was given a retry-after time before, whether it was held or parked until
	// then.
	Returned bool
	Priority Priority // whose turn comes by weight, where calls of several cannot all start
	// Waiter is told when it may start, where it cannot now and is expected to within Hold; nil: it
	// is always given a retry-after time.
	Waiter Waiter
	Hold   time.Duration
}

// Admission is what executors use of a limiter.
type Admission interface {
	// Start asks whether a call of an app may start now. It never blocks. After an OK the caller
	// must call Done, or Cancel, once; and so after the Waiter was Ready.
	Start(a Ask) Decision
	// Done says that a call that was let start has ended.
	Done(app string)
	// Cancel says that a call that was let start is not made. Another takes its permit, if it is
	// still of use.
	Cancel(app string, p Priority)
	// Set gives an app's limits; they hold from now on. The zero Settings take them away.
	Set(app string, s Settings)
	// Close returns all that wait. From then on nothing does: who cannot start gets a retry-after
	// time.
	Close() []Waiter
	// Run fetches permits until ctx ends, and then gives back what it holds.
	Run(ctx context.Context) error
}

// Limiter is an executor's part of the limits. It is safe for concurrent use.
type Limiter struct {
	opts    Options
	metrics *metrics
	// has room for one: something waits, or is active, for which Run has to look anew.
	wake chan struct{}

	mu          sync.Mutex
	apps        map[string]*app
	active      map[string]*app // those of them that may want something of the ledger
	unavailable bool            // the ledger: since the last exchange
	closed      bool
	inUse       int // calls of all apps
}

var _ Admission = (*Limiter)(nil)

// New returns a limiter. It starts nothing.
func New(opts Options) (*Limiter, error) {
	if opts.SharedState == nil || opts.Executor == "" || opts.Share < 0 || opts.Calls < 0 {
		return nil, errors.New(
			"options of the limiter: Ledger and Executor are needed, and Share and Calls must not be negative",
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
		apps:    map[string]*app{},
		active:  map[string]*app{},
	}, nil
}

// Start implements Gate.
func (l *Limiter) Start(a Ask) Decision {
	now := l.opts.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.activate(a.App, now)
	why := st.refuse(now, l)
	if why == nil && !st.list.empty() {
		why = byQueue // who comes while others wait goes the way of all: its turn may come at once
	}
	if why == nil {
		st.started(now, l.unavailable)
		l.inUse++
		return Decision{OK: true}
	}
	l.metrics.refused(why.label)
	wait := st.expectedWait(&a, why, now)
	if a.Waiter == nil || l.closed || wait > a.Hold {
		if a.Waiter == nil && why.fetch {
			st.missed(now)
			signal(l.wake)
		}
		return Decision{At: st.retryAfter(&a, wait, now)}
	}
	if st.list.empty() {
		st.waitingSince = now
		signal(l.wake)
	}
	st.list.push(&a)
	if why == byQueue {
		l.pump(st, now)
	}
	return Decision{Waits: true}
}

// activate returns an app that wants something.
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
	}
	return st
}

// Done implements Gate.
func (l *Limiter) Done(app string) { l.end(app, nil) }

// Cancel implements Gate.
func (l *Limiter) Cancel(app string, p Priority) { l.end(app, &p) }

// end counts a call out, and lets the next start that waits for its place, or for its unused
// permit.
func (l *Limiter) end(name string, unused *Priority) {
	now := l.opts.Now()
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
	} else if st.settings.Rate > 0 && !l.unavailable && !now.After(st.tokensUntil) {
		st.order = append([]Priority{*unused}, st.order...)
	}
	l.pump(st, now)
}

// Close implements Gate.
func (l *Limiter) Close() (all []Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, st := range l.apps {
		all = append(all, st.list.drain()...)
	}
	return all
}

// Set implements Gate.
func (l *Limiter) Set(app string, s Settings) {
	now := l.opts.Now()
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
	l.forget(app, st)
}

// forget drops what is known of an app that has no limits and runs nothing.
func (l *Limiter) forget(name string, st *app) {
	if !st.limited() && st.inUse == 0 && st.list.empty() {
		delete(l.apps, name)
		delete(l.active, name)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
