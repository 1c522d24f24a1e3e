package executor

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// permit is what lets an attempt start.
type permit struct {
	svc      *Service
	app      string // empty: no limit is asked
	priority limit.Priority
	endpoint string // empty: no breaker is asked
	probe    limit.Probe
	reported bool
	called   bool // the call was made
}

// waiter is a fire in the wait list of its app's limits, which alone orders what waits there.
type waiter struct {
	svc   *Service
	entry *claimedFire
	app   string
}

// Ready implements limit.Waiter. What has a permit goes to a worker before all else, in the order
// of the permits. The worker decides anew: the timer may have changed while the fire waited.
func (w *waiter) Ready() bool {
	if w.entry.epoch.Context().Err() != nil {
		return false // its session has ended, and whoever took the claim over calls it
	}
	w.entry.permit = &permit{svc: w.svc, app: w.app, priority: priorityOf(w.entry)}
	w.svc.startWorkers(w.svc.queue.pushPermitted(w.entry))
	return true
}

// release gives back a permit for which no call is made.
func (p *permit) release() {
	if p != nil && p.app != "" {
		p.svc.opts.Limits.Cancel(p.app, p.priority)
	}
}

// minDeferWait is a wait that is held however full the hands are: to give the fire back and claim it
// again takes as long.
const minDeferWait = 250 * time.Millisecond

// acquirePermit asks the breaker of the endpoint and the limits of the app; the breaker first, for what it
// refuses shall cost the app nothing. Without a permit the fire is on its way somewhere else, and
// no longer this worker's: it waits in the list of the limits, which gives it back with its permit;
// or it is parked until a retry-after time, when its turn is further away than what is held. A
// parked fire is an open fire like one that waits for its retry: nobody has it in hand, and it
// keeps nothing from going on. granted is the permit that it has waited for, and nil most often; it
// is returned, or the caller's still.
func (s *Service) acquirePermit(e *claimedFire, owner *tenant, granted *permit) *permit {
	if e.canary() {
		return &permit{svc: s}
	}
	if s.giveUpLate(e) {
		return nil
	}
	p := granted
	if p == nil {
		p = &permit{svc: s, app: owner.name, priority: priorityOf(e)}
	}
	if e.endpoint != "" {
		d, probe := s.opts.Breakers.Allow(e.endpoint)
		if !d.OK {
			s.refused(e, d.At, e.endpoint)
			return nil
		}
		p.endpoint, p.probe = e.endpoint, probe
		e.refusedSinceMS = 0
	}
	if granted != nil {
		return p
	}
	// Who comes back goes before whoever is new; a retry, too, has had its turn.
	waited, ordered, id := e.waitedForLimit, e.ordered, e.fire.FireID
	ask := limit.Ask{
		App:      owner.name,
		Priority: p.priority,
		Waiter:   &waiter{svc: s, entry: e, app: owner.name},
		Hold:     s.maxWait(),
		Returned: waited || e.fire.State == timer.FireDeferred ||
			e.fire.State == timer.FireRetrying,
	}
	e.waitedForLimit = true // now, for where it waits it is another worker's at once
	d := s.opts.Limits.Start(ask)
	if d.OK {
		e.waitedForLimit = waited
		return p
	}
	if p.endpoint != "" {
		s.opts.Breakers.Cancel(p.endpoint, p.probe)
	}
	if ordered {
		s.order.passed(id)
	}
	if !d.Waits {
		s.deferUntil(e, d.At)
	}
	return nil
}

// maxWait is how long a fire may wait in hand for a limit or a breaker.
func (s *Service) maxWait() time.Duration {
	if s.inflight.crowded() {
		return minDeferWait
	}
	return maxInflightWait
}

// refused lets a fire wait for its endpoints, as none of them is called. What was not sent is no
// attempt, unless a call to each of them has failed since it waits: then they are as bad as when it
// would have been sent, and the attempt counts as failed, so that a dead endpoint's fires come to
// an end, by an attempt per round of probes.
//
// One that came back from the store, to whatever executor, was told to wait for the end of an open
// breaker, and somewhat longer: probes went before it.
func (s *Service) refused(e *claimedFire, at time.Time, endpoints ...string) {
	bad := true
	for _, endpoint := range endpoints {
		failed, spread := s.opts.Breakers.OpenSince(endpoint)
		since := e.refusedSinceMS
		if since == 0 && e.fire.State == timer.FireDeferred {
			since = e.fire.RunAtMS - spread.Milliseconds()
		}
		bad = bad && since != 0 && failed.UnixMilli() >= since
	}
	if bad {
		e.refusedSinceMS = 0
		s.notAttempted(
			e,
			timer.FailureCircuit,
			"not sent: the endpoint fails, and is left alone for a while",
		)
		return
	}
	s.passed(e)
	e.waitedForBreaker = true
	if e.refusedSinceMS == 0 {
		e.refusedSinceMS = s.opts.Clock.Now().UnixMilli()
	}
	if e.fire.State == timer.FireRetrying {
		e.fire.State = timer.FireDeferred // as which it is known when it comes back
	}
	s.deferUntil(e, at)
}

// deferUntil lets a fire wait until an instant.
func (s *Service) deferUntil(e *claimedFire, at time.Time) {
	if at.Sub(s.opts.Clock.Now()) < s.maxWait() {
		s.wheel.addAt(at.UnixMilli(), e)
		return
	}
	s.met.limitDeferred.Inc()
	if e.fire.State == timer.FireReady {
		e.fire.State = timer.FireDeferred
	}
	s.moveTo(e, at)
	s.recorder.release(e)
}

// done ends what the permit was for.
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

// report tells the breaker how the call went. Of one that says nothing of the endpoint it hears
// when the permit is done.
func (p *permit) report(r *callback.Result) {
	if p.endpoint == "" || !callback.ConcernsEndpoint(r) {
		return
	}
	p.reported = true
	p.svc.opts.Breakers.Report(p.endpoint, p.probe, !callback.EndpointFailed(r))
}

// guard asks the breakers for each of several targets: mode any goes round one that fails, and of
// mode all that target waits for the next attempt.
type guard struct {
	svc   *Service
	entry *claimedFire

	mu      sync.Mutex
	sent    bool      // some target was called
	refused []string  // endpoints that may not be
	at      time.Time // when the first of those may
}

// Allow implements callback.Guard.
func (g *guard) Allow(t *timer.Target) (done func(*callback.Result), ok bool) {
	p := &permit{svc: g.svc, endpoint: endpointOf(g.entry.fire.AppID, t)}
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

// Continue implements callback.Guard: P3 and P5 hold for each target.
func (g *guard) Continue() bool {
	if !g.entry.epoch.Valid() {
		return false
	}
	view, err := g.svc.resolve(g.entry)
	return err == nil && view.verdict.call()
}

// endpointOf names the endpoint of a target: its app and its host.
func endpointOf(app int64, t *timer.Target) string {
	_, rest, ok := strings.Cut(t.URL, "://")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:] // a password is in no name
	return strconv.FormatInt(app, 10) + " " + rest
}
