package delivery

import (
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Permit allows an attempt to start.
type Permit struct {
	d        *Deliverer
	app      string // empty: no limit applies
	priority limit.Priority
	at       time.Time // when the limits granted it
	endpoint string    // empty: no breaker applies
	probe    limit.Probe
	reported bool
	called   bool // the target was called
}

// waiter is a fire in the waiting list of its app's limits, which alone orders it.
type waiter struct {
	d     *Deliverer
	entry *inflight.Entry
	app   string
}

// Ready implements limit.Waiter. Fires with a permit go to workers first, in the order of their
// permits. The worker decides again, because the timer may have changed during the wait.
func (w *waiter) Ready() bool {
	if w.entry.Epoch.Context().Err() != nil {
		return false // session expired: the fire's next owner calls it
	}
	w.entry.PermittedFor, w.entry.PermittedAt = w.app, time.Now()
	w.d.opts.Permitted(w.entry)
	return true
}

// TakePermit returns the permit that a fire has waited for, or nil.
func (d *Deliverer) TakePermit(e *inflight.Entry) *Permit {
	if e.PermittedFor == "" {
		return nil
	}
	p := &Permit{d: d, app: e.PermittedFor, priority: e.Priority(), at: e.PermittedAt}
	e.PermittedFor = ""
	return p
}

// Release returns a permit that was not used for a call. A nil permit is allowed.
func (p *Permit) Release() {
	if p != nil && p.app != "" {
		p.d.opts.Limits.Cancel(p.app, p.priority, p.at)
	}
}

// expired reports whether a permit is too old for the call of a fire: the store did not answer its
// questions, or too many results waited to be written. Many fires have waited with permits then, and
// must not all start at one moment.
//
// It does so once for each attempt of a fire. So calls go on, at half of the rate or more, if each of
// them waits too long.
func (p *Permit) expired(e *inflight.Entry, limits *limit.Settings) bool {
	return p != nil && p.app != "" && limits.Rate > 0 && !e.PermitExpired &&
		!p.d.opts.Clock.Within(limits.PermitTTL(), p.at)
}

// minDeferWait is the shortest wait for which a fire is deferred in the store. Releasing and
// claiming it again takes about as long.
const minDeferWait = inflight.MaxWait / 20

// longWait is how long a fire may wait in flight for a worker while there is much room. To release
// and claim it costs the store as much as to record a call. If the store is what is slow, that
// would make it slower still.
const longWait = 6 * inflight.MaxWait

// acquirePermit asks the breaker of the endpoint, then the limits of the app, so that a refusal by
// the breaker costs the app nothing.
//
// Without a permit it returns nil, and the fire no longer belongs to this worker. The fire waits in
// the limiter's list, which returns it with its permit. If its turn is too far away, it is deferred
// until a retry-after time. A deferred fire is open and unowned, like one waiting for its retry.
//
// granted is the permit the fire has waited for, usually nil. It is returned, or stays the
// caller's.
func (d *Deliverer) acquirePermit(e *inflight.Entry, app *cache.App, granted *Permit) *Permit {
	if e.Canary() {
		return &Permit{d: d}
	}
	if d.giveUpLate(e) {
		return nil
	}
	p := granted
	if p == nil {
		p = &Permit{d: d, app: app.Name, priority: e.Priority(), at: time.Now()}
	}
	if e.Endpoint != "" {
		allowed, probe := d.opts.Breakers.Allow(e.Endpoint)
		if !allowed.OK {
			d.refused(e, allowed.At, e.Endpoint)
			return nil
		}
		p.endpoint, p.probe = e.Endpoint, probe
		if e.DeferredSince(timer.WaitBreaker) != 0 {
			e.EndDeferral(d.opts.Clock.Now().UnixMilli())
		}
	}
	if granted != nil {
		return p
	}
	// Fires that waited before go first; a retry has had its turn too.
	waited, ordered, id := e.WaitedForLimit, e.Ordered, e.Fire.FireID
	ask := limit.Ask{
		App:      app.Name,
		Priority: p.priority,
		Waiter:   &waiter{d: d, entry: e, app: app.Name},
		Hold:     d.holdOf(e, &app.Limits),
		Returned: waited || e.Fire.State == timer.FireDeferred ||
			e.Fire.State == timer.FireRetrying,
		Readmitted: e.AskedFor == app.Name,
		Expired:    e.PermitExpired,
	}
	e.AskedFor = ""
	// Set before Start: a waiting fire may belong to another worker at once.
	e.WaitedForLimit = true
	waits := e.Waits()
	d.waitForCall(e, waitOf(&app.Limits))
	start := d.opts.Limits.Start(ask)
	if start.OK {
		e.WaitedForLimit = waited
		e.SetWaits(waits)
		return p
	}
	if p.endpoint != "" {
		d.opts.Breakers.Cancel(p.endpoint, p.probe)
	}
	if ordered {
		d.opts.Order.Passed(id)
	}
	if !start.Waits {
		if start.Share {
			e.SetWaits(waits)
			d.waitForCall(e, timer.WaitWorker)
		}
		d.DeferUntil(e, start.At)
	}
	return nil
}

// waitForCall notes what a fire waits for until it may be called. Breakers of several targets refuse it
// only once it may: until then it goes on waiting for them, so that failed probes count as its attempts.
func (d *Deliverer) waitForCall(e *inflight.Entry, w timer.Wait) {
	if e.Def.Several() && e.DeferredSince(timer.WaitBreaker) != 0 {
		w = timer.WaitBreaker
	}
	e.DeferFor(w, d.opts.Clock.Now().UnixMilli())
}

// waitOf returns what a fire waits for that the limiter refuses. An app without limits of its own may
// still use only a part of the executor's workers.
func waitOf(limits *limit.Settings) timer.Wait {
	if limits.Rate == 0 && limits.Concurrent == 0 {
		return timer.WaitWorker
	}
	return timer.WaitLimits
}

// maxWait returns how long a fire may wait in flight for a limit, a breaker or, with little room,
// for a worker.
func (d *Deliverer) maxWait() time.Duration {
	if d.opts.Inflight.Crowded() {
		return minDeferWait
	}
	return inflight.MaxWait
}

// holdOf returns how long a fire of an app with these limits may wait in flight to be called. Where
// the app has limits of its own, a wait says nothing about the load, and may be long. Late fires that
// are called in order may wait, in another executor, until this one is called or deferred.
func (d *Deliverer) holdOf(e *inflight.Entry, limits *limit.Settings) time.Duration {
	if waitOf(limits) == timer.WaitWorker && !inOrder(e.Def) && d.opts.Inflight.Roomy() {
		return longWait
	}
	return d.maxWait()
}

// inOrder reports whether late fires of the definition are called in order of due time.
func inOrder(d *timer.Definition) bool {
	kind := d.Schedule.Kind
	return kind.Repeats() && d.Misfire.For(kind).Policy == timer.MisfireFireAll
}

// refused makes a fire wait for its endpoints, none of which may be called. That is no attempt,
// unless a call to each endpoint has failed since the fire began to wait. Then a call would have
// failed too, and counts as a failed attempt. So fires of a dead endpoint finish, at one attempt
// per round of probes.
//
// A fire that was deferred in the store has in its row since when it waits for the breaker,
// whichever executor owned it then. A failure of the same millisecond is the one that opened the
// breaker, before the fire was refused.
func (d *Deliverer) refused(e *inflight.Entry, at time.Time, endpoints ...string) {
	if d.failedSince(e, endpoints) {
		d.NotAttempted(
			e,
			timer.FailureCircuit,
			"not sent: the endpoint's circuit breaker is open",
		)
		return
	}
	d.opts.Order.Leave(e)
	e.WaitedForBreaker = true
	e.DeferFor(timer.WaitBreaker, d.opts.Clock.Now().UnixMilli())
	d.DeferUntil(e, at)
}

// failedSince returns whether a call to each endpoint has failed since the fire began to wait.
func (d *Deliverer) failedSince(e *inflight.Entry, endpoints []string) bool {
	since := e.DeferredSince(timer.WaitBreaker)
	return since != 0 && !slices.ContainsFunc(endpoints, func(endpoint string) bool {
		return d.opts.Breakers.OpenSince(endpoint).UnixMilli() <= since
	})
}

// DeferUntil makes a fire wait until a time: in flight if the wait is short, else in the store.
func (d *Deliverer) DeferUntil(e *inflight.Entry, at time.Time) {
	if at.Sub(d.opts.Clock.Now()) < d.maxWait() {
		d.opts.Wheel.AddAt(at.UnixMilli(), e)
		return
	}
	d.met.limitDeferred.Inc()
	switch e.Fire.State { // deferred is the state by which raised limits and its next owner know it
	case timer.FireReady, timer.FireRetrying, timer.FireWaiting:
		e.Fire.State = timer.FireDeferred
	case timer.FireDeferred, timer.FireAccepted, timer.FireAsyncFailed:
	}
	e.MoveTo(at, d.opts.Counts)
	d.opts.Recorder.Release(e)
}

// Defer makes fires wait until their times that have left the wait lists of their apps.
func (d *Deliverer) Defer(fires []limit.Deferral) {
	for _, f := range fires {
		w := f.Waiter.(*waiter) //nolint:forcetypeassert // only acquirePermit adds waiters
		if w.entry.Epoch.Context().Err() != nil {
			continue // the fire's next owner calls it
		}
		if f.Share {
			d.waitForCall(w.entry, timer.WaitWorker)
		}
		d.DeferUntil(w.entry, f.At)
	}
}

// done ends the use of the permit.
func (p *Permit) done() {
	if p.app != "" && p.called {
		p.d.opts.Limits.Done(p.app)
	} else {
		p.Release()
	}
	if p.endpoint != "" && !p.reported {
		p.d.opts.Breakers.Cancel(p.endpoint, p.probe)
	}
}

// report tells the breaker the result of the call. done cancels the probe of a call that says
// nothing about the endpoint.
func (p *Permit) report(r *callback.Result) {
	if p.endpoint == "" || !callback.ConcernsEndpoint(r) {
		return
	}
	p.reported = true
	p.d.opts.Breakers.Report(p.endpoint, p.probe, !callback.EndpointFailed(r))
}
