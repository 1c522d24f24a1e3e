package executor

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// permit allows an attempt to start.
type permit struct {
	svc      *Service
	app      string // empty: no limit applies
	priority limit.Priority
	endpoint string // empty: no breaker applies
	probe    limit.Probe
	reported bool
	called   bool // the target was called
}

// waiter is a fire in the waiting list of its app's limits, which alone orders it.
type waiter struct {
	svc   *Service
	entry *inflight.Entry
	app   string
}

// Ready implements limit.Waiter. Fires with a permit go to workers first, in the order of their
// permits. The worker decides again, because the timer may have changed during the wait.
func (w *waiter) Ready() bool {
	if w.entry.Epoch.Context().Err() != nil {
		return false // session expired: the fire's next owner calls it
	}
	w.entry.PermittedFor = w.app
	w.svc.startWorkers(w.svc.queue.PushPermitted(hold.Due[*candidate]{Entry: w.entry}))
	return true
}

// takePermit returns the permit that a fire has waited for, or nil.
func (s *Service) takePermit(e *inflight.Entry) *permit {
	if e.PermittedFor == "" {
		return nil
	}
	p := &permit{svc: s, app: e.PermittedFor, priority: e.Priority()}
	e.PermittedFor = ""
	return p
}

// release returns a permit that was not used for a call. A nil permit is allowed.
func (p *permit) release() {
	if p != nil && p.app != "" {
		p.svc.opts.Limits.Cancel(p.app, p.priority)
	}
}

// minDeferWait is the shortest wait for which a fire is deferred in the store. Releasing and
// claiming it again takes about as long.
const minDeferWait = inflight.MaxWait / 20

// acquirePermit asks the breaker of the endpoint, then the limits of the app, so that a refusal by
// the breaker costs the app nothing.
//
// Without a permit it returns nil, and the fire no longer belongs to this worker. The fire waits in
// the limiter's list, which returns it with its permit. If its turn is too far away, it is deferred
// until a retry-after time. A deferred fire is open and unowned, like one waiting for its retry.
//
// granted is the permit the fire has waited for, usually nil. It is returned, or stays the
// caller's.
func (s *Service) acquirePermit(e *inflight.Entry, owner *cache.App, granted *permit) *permit {
	if e.Canary() {
		return &permit{svc: s}
	}
	if s.giveUpLate(e) {
		return nil
	}
	p := granted
	if p == nil {
		p = &permit{svc: s, app: owner.Name, priority: e.Priority()}
	}
	if e.Endpoint != "" {
		d, probe := s.opts.Breakers.Allow(e.Endpoint)
		if !d.OK {
			s.refused(e, d.At, e.Endpoint)
			return nil
		}
		p.endpoint, p.probe = e.Endpoint, probe
		if e.DeferredSince(timer.WaitBreaker) != 0 {
			e.EndDeferral(s.opts.Clock.Now().UnixMilli())
		}
	}
	if granted != nil {
		return p
	}
	// Fires that waited before go first; a retry has had its turn too.
	waited, ordered, id := e.WaitedForLimit, e.Ordered, e.Fire.FireID
	ask := limit.Ask{
		App:      owner.Name,
		Priority: p.priority,
		Waiter:   &waiter{svc: s, entry: e, app: owner.Name},
		Hold:     s.maxWait(),
		Returned: waited || e.Fire.State == timer.FireDeferred ||
			e.Fire.State == timer.FireRetrying,
	}
	// Set before Start: a waiting fire may belong to another worker at once.
	e.WaitedForLimit = true
	waits := e.Waits()
	e.DeferFor(timer.WaitLimits, s.opts.Clock.Now().UnixMilli())
	d := s.opts.Limits.Start(ask)
	if d.OK {
		e.WaitedForLimit = waited
		e.SetWaits(waits)
		return p
	}
	if p.endpoint != "" {
		s.opts.Breakers.Cancel(p.endpoint, p.probe)
	}
	if ordered {
		s.order.Passed(id)
	}
	if !d.Waits {
		s.deferUntil(e, d.At)
	}
	return nil
}

// maxWait returns how long a fire may wait in flight for a limit or a breaker.
func (s *Service) maxWait() time.Duration {
	if s.inflight.Crowded() {
		return minDeferWait
	}
	return inflight.MaxWait
}

// refused makes a fire wait for its endpoints, none of which may be called. That is no attempt,
// unless a call to each endpoint has failed since the fire began to wait. Then a call would have
// failed too, and counts as a failed attempt. So fires of a dead endpoint finish, at one attempt
// per round of probes.
//
// A fire that was deferred in the store has in its row since when it waits for the breaker,
// whichever executor owned it then. A failure of the same millisecond is the one that opened the
// breaker, before the fire was refused.
func (s *Service) refused(e *inflight.Entry, at time.Time, endpoints ...string) {
	bad, since := true, e.DeferredSince(timer.WaitBreaker)
	for _, endpoint := range endpoints {
		failed := s.opts.Breakers.OpenSince(endpoint)
		bad = bad && since != 0 && failed.UnixMilli() > since
	}
	if bad {
		s.notAttempted(
			e,
			timer.FailureCircuit,
			"not sent: the endpoint's circuit breaker is open",
		)
		return
	}
	s.passed(e)
	e.WaitedForBreaker = true
	e.DeferFor(timer.WaitBreaker, s.opts.Clock.Now().UnixMilli())
	if e.Fire.State == timer.FireRetrying {
		e.Fire.State = timer.FireDeferred // the state by which its next owner knows it
	}
	s.deferUntil(e, at)
}

// deferUntil makes a fire wait until a time: in flight if the wait is short, else in the store.
func (s *Service) deferUntil(e *inflight.Entry, at time.Time) {
	if at.Sub(s.opts.Clock.Now()) < s.maxWait() {
		s.wheel.AddAt(at.UnixMilli(), e)
		return
	}
	s.met.limitDeferred.Inc()
	if e.Fire.State == timer.FireReady {
		e.Fire.State = timer.FireDeferred
	}
	e.MoveTo(at, s.opts.Counts)
	s.recorder.Release(e)
}

// done ends the use of the permit.
func (p *permit) done() {
	if p.app != "" && p.called {
		p.svc.opts.Limits.Done(p.app)
	} else {
		p.release()
	}
	if p.endpoint != "" && !p.reported {
		p.svc.opts.Breakers.Cancel(p.endpoint, p.probe)
	}
}

// report tells the breaker the result of the call. done cancels the probe of a call that says
// nothing about the endpoint.
func (p *permit) report(r *callback.Result) {
	if p.endpoint == "" || !callback.ConcernsEndpoint(r) {
		return
	}
	p.reported = true
	p.svc.opts.Breakers.Report(p.endpoint, p.probe, !callback.EndpointFailed(r))
}

// guard asks the breakers for each of several targets. In mode any a refused target is passed over;
// in mode all it waits for the next attempt.
type guard struct {
	svc   *Service
	entry *inflight.Entry

	mu      sync.Mutex
	sent    bool      // a target was called
	refused []string  // endpoints with an open breaker
	at      time.Time // the earliest time that one of them may be called
}

// Allow implements callback.Guard.
func (g *guard) Allow(t *timer.Target) (done func(*callback.Result), ok bool) {
	p := &permit{svc: g.svc, endpoint: cache.EndpointOf(g.entry.Fire.AppID, t)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.endpoint != "" {
		var d limit.Decision
		if d, p.probe = g.svc.opts.Breakers.Allow(p.endpoint); !d.OK {
			if g.refused = append(g.refused, p.endpoint); g.at.IsZero() || d.At.Before(g.at) {
				g.at = d.At
			}
			return nil, false
		}
	}
	g.sent = true
	return func(r *callback.Result) {
		p.report(r)
		p.done()
	}, true
}

// Continue implements callback.Guard: session (P3) and state (P5) are checked for each target.
func (g *guard) Continue() bool {
	return g.entry.Epoch.Valid() && g.svc.stillCallable(g.entry)
}
