package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// recheckAfter is when a fire is decided again whose timer could not be read.
const recheckAfter = 500 * time.Millisecond

// enqueueDue queues the fires that the wheel has released, and starts workers for them.
func (s *Service) enqueueDue(es []*inflight.Entry) {
	now := s.opts.Clock.Now().UnixMilli()
	for _, e := range es {
		e.WaitFor(timer.WaitWorker, now)
	}
	s.startWorkers(s.queue.Push(es))
}

// startWorkers starts workers for entries that find no idle one, up to MaxCalls in all, and none
// once the drain waits for them.
func (s *Service) startWorkers(short int) {
	if short == 0 {
		return
	}
	s.workersMu.Lock()
	defer s.workersMu.Unlock()
	for range short {
		if s.workerCount == s.opts.MaxCalls || s.draining {
			return
		}
		s.workerCount++
		s.workers.Go(s.runWorker)
	}
}

// runWorker calls fires until the queue is closed. Workers are never stopped earlier, so there are
// as many as were ever busy at once. A worker waits for nothing but the calls that it makes.
func (s *Service) runWorker() {
	for {
		d, ok := s.queue.Pop()
		if !ok {
			return
		}
		c := d.Known
		if c == nil {
			c = &candidate{entry: d.Entry, granted: s.takePermit(d.Entry)}
		}
		s.attempt(c)
	}
}

// attempt decides about a due fire, calls it, and passes the result on. If the decision needs an
// answer, the fire comes back with it.
func (s *Service) attempt(c *candidate) {
	e := c.entry
	switch s.evaluate(c) {
	case waits:
		return
	case over:
		s.settle(c)
		return
	case goes:
	}
	s.inflight.CallStarted(e)
	p := s.acquirePermit(e, c.owner, c.granted)
	if p == nil {
		c.granted.release()
		return
	}
	if !e.Low && e.Fire.Attempt == 0 && !e.WasLimited() {
		s.intake.ObserveStart(
			time.Duration(s.opts.Clock.Now().UnixMilli()-e.Fire.RunAtMS) * time.Millisecond,
		)
	}
	s.call(e, c.owner, &c.view, p)
}

// notAttempted counts an attempt that could not be sent as failed, so that the retry policy ends
// the fire.
func (s *Service) notAttempted(e *inflight.Entry, why timer.Failure, text string) {
	s.decide(e, &delivery.Attempt{
		Result: callback.Result{
			Class:   callback.Retry,
			Failure: why,
			Error:   text,
		},
		Number: e.Fire.Attempt + 1,
		Start:  s.opts.Clock.Now(),
	})
}

// call makes an attempt that the limits allow.
func (s *Service) call(e *inflight.Entry, owner *cache.App, view *timerView, p *permit) {
	defer p.done()
	def := e.Def
	// Last check before the call: the clock (P1), the session (P3) and the state (P5). A stalled
	// process finds them too old here. For P1 the run time alone is not enough. An executor whose
	// clock is ahead may have queued this fire for a slot, which is granted perhaps before the
	// planned time.
	start, steady := s.opts.Clock.Read()
	planned := e.PlannedMS()
	if from := max(e.Fire.RunAtMS, planned); !steady || start.UnixMilli() < from {
		s.wheel.AddAt(from, e)
		return
	}
	if !e.Epoch.Valid() || time.Since(view.asOf) >= cache.MaxAgeAtCall {
		s.recheckLater(e)
		return
	}
	n := e.Fire.Attempt + 1
	late := start.UnixMilli() - planned
	if n == 1 {
		e.Fire.FirstLatenessMS = late
	}
	var each *guard
	var ask callback.Guard // nil for a single target, whose breaker was asked already
	if def.Several() {
		each = &guard{svc: s, entry: e}
		ask = each
	} else {
		s.observeLateness(e, n, late)
	}
	p.called = true
	e.Began.Store(true)
	if e.Ordered && n == 1 {
		s.order.Called(e)
	}
	s.met.activeAttempts.Inc()
	began := time.Now()
	parent := s.traces.Begin(e, n, start)
	ctx, done := s.activeCalls.Begin(e)
	r := s.opts.Caller.Call(ctx, &callback.Request{
		Fire:      e.Fire.FireID,
		App:       view.State.App,
		PlannedMS: planned,
		Attempt:   n,
		Start:     start,
		Target:    def.Target,
		Timeout:   time.Duration(def.Retry.Timeout),
		Fanout:    def.Fanout,
		Done:      e.Fire.TargetBits,
		NoRetry:   def.Retry.NoRetry,
		Name:      view.State.Name,
		Labels:    def.Labels,
		Zone:      templateZone(def),
		Cause:     e.Fire.Cause.String(),
		Signer:    owner.Signer,
		Egress:    owner.Egress,
		Token:     s.token(e, n),
		Guard:     ask,

		TraceParent: parent,
	})
	cancelled := done()
	took := time.Since(began)
	s.met.activeAttempts.Dec()
	if each != nil {
		if len(each.refused) > 0 && !each.sent && !cancelled {
			s.traces.NotSent(e)
			s.refused(e, each.at, each.refused...)
			return
		}
		s.observeLateness(e, n, late)
	}
	s.traces.End(e, &r, took)
	if !e.Canary() {
		s.observe(s.met.callSeconds, took.Seconds(), e)
	}
	if e.Epoch.Context().Err() != nil && r.Class != callback.Success {
		// Cancelled because the session expired: not a failed attempt, and no longer ours to
		// record.
		return
	}
	p.report(&r)
	a := delivery.Attempt{Result: r, Number: n, Start: start, Took: took}
	if cancelled && r.Class != callback.Success {
		e.Fire.Attempt = n
		e.Attempted(start.UnixMilli())
		s.end(e, s.outcome(e, timer.Skipped, timer.ReasonCancelled), a.Records(e.Fire.FireID)...)
		return
	}
	s.decide(e, &a)
}

// observeLateness records the lateness of a fire's first attempt.
func (s *Service) observeLateness(e *inflight.Entry, n int32, lateMS int64) {
	if n == 1 && !e.Canary() {
		s.observe(s.met.lateness, float64(lateMS)/1000, e) //nolint:mnd // ms to s
	}
}

// observe adds a value about a fire to a histogram. If the fire's trace is kept, it is the value's
// exemplar.
func (s *Service) observe(h prometheus.Histogram, value float64, e *inflight.Entry) {
	if id := s.traces.SampledID(e); id != "" {
		//nolint:forcetypeassert // the library's histograms take exemplars
		h.(prometheus.ExemplarObserver).ObserveWithExemplar(
			value, prometheus.Labels{logging.TraceID: id},
		)
		return
	}
	h.Observe(value)
}

// about adds to a log line which fire it is about, and the fire's trace if that is kept. The caller
// owns the entry.
func (s *Service) about(e *inflight.Entry) func(line *zerolog.Event) {
	return func(line *zerolog.Event) {
		line.Stringer(logging.Fire, e.Fire.FireID)
		if id := s.traces.SampledID(e); id != "" {
			line.Str(logging.TraceID, id)
		}
	}
}

// skip finishes a fire without a call.
func (s *Service) skip(e *inflight.Entry, reason timer.Reason) {
	o := s.outcome(e, timer.Skipped, reason)
	// The edit that superseded a fire has already uncounted it.
	o.Uncounted = e.Def != nil && e.Def.Schedule.MaxFires > 0 && e.Fire.Series == 0 &&
		e.Fire.Attempt == 0 &&
		reason != timer.ReasonSuperseded &&
		reason != timer.ReasonDeleted
	s.end(e, o)
}

// passed tells the sequence of a late fire that the fire no longer holds back later ones: it has
// ended, or waits for something else.
func (s *Service) passed(e *inflight.Entry) {
	if e.Ordered {
		s.order.Passed(e.Fire.FireID)
	}
}

// recheckLater returns a fire to the wheel for a moment, or drops it if its session has expired.
func (s *Service) recheckLater(e *inflight.Entry) {
	s.recheckAt(s.opts.Clock.Now().Add(recheckAfter).UnixMilli(), e)
}

func (s *Service) recheckAt(atMS int64, e *inflight.Entry) {
	if e.Epoch.Context().Err() != nil {
		s.inflight.Remove(e)
		return
	}
	e.WaitFor(timer.WaitStore, s.opts.Clock.Now().UnixMilli())
	s.wheel.AddAt(atMS, e)
}
