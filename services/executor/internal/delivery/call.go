package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// NotAttempted counts an attempt that could not be sent as failed, so that the retry policy ends
// the fire.
func (d *Deliverer) NotAttempted(e *inflight.Entry, why timer.Failure, text string) {
	if e.Fire.Attempt == 0 {
		e.Fire.FirstLatenessMS = max(0, d.opts.Clock.Now().UnixMilli()-e.PlannedMS())
	}
	r := callback.Result{Class: callback.Retry, Failure: why, Error: text}
	d.decide(e, d.notSent(e.Fire.Attempt+1, r))
}

// notSent returns an attempt of now that ends as if the receiver had answered so.
func (d *Deliverer) notSent(number int32, r callback.Result) *Attempt {
	return &Attempt{Result: r, Number: number, Start: d.opts.Clock.Now()}
}

// call makes an attempt that the limits allow.
func (d *Deliverer) call(e *inflight.Entry, t *Timer, p *Permit) {
	defer p.done()
	def := e.Def
	// Last check before the call: the clock (P1), the session (P3) and the state (P5). A stalled
	// process finds them too old here. For P1 the run time alone is not enough. An executor whose
	// clock is ahead may have queued this fire for a slot, which is granted perhaps before the
	// planned time.
	start, steady := d.opts.Clock.Read()
	planned := e.PlannedMS()
	if from := max(e.Fire.RunAtMS, planned); !steady || start.UnixMilli() < from {
		d.opts.Wheel.AddAt(from, e)
		return
	}
	if !e.Epoch.Valid() || !d.opts.Clock.Within(cache.MaxAgeAtCall, t.AsOf) {
		d.opts.Recheck(e)
		return
	}
	n := e.Fire.Attempt + 1
	late, before := start.UnixMilli()-planned, e.Fire.FirstLatenessMS
	if n == 1 {
		e.Fire.FirstLatenessMS = late
	}
	var each *guard
	var ask callback.Guard // nil for a single target, whose breaker was asked already
	if def.Several() {
		each = &guard{d: d, entry: e}
		ask = each
	} else {
		d.observeLateness(e, n, late)
	}
	p.called, e.PermitExpired = true, false
	d.opts.Inflight.AttemptStarted(e)
	if e.Ordered && n == 1 {
		d.opts.Order.Called(e)
	}
	d.met.activeAttempts.Inc()
	began := time.Now()
	parent := d.opts.Traces.Begin(e, n, start)
	ctx, done := d.opts.Active.Begin(e)
	q := callback.Request{
		Fire:      e.Fire.FireID,
		App:       t.State.App,
		PlannedMS: planned,
		Attempt:   n,
		Start:     start,
		Target:    def.Target,
		Timeout:   time.Duration(def.Retry.Timeout),
		Fanout:    def.Fanout,
		Done:      e.Fire.TargetBits,
		NoRetry:   def.Retry.NoRetry,
		Name:      t.State.Name,
		Labels:    def.Labels,
		Zone:      templateZone(def),
		Cause:     e.Fire.Cause.String(),
		Signer:    t.App.Signer,
		SignError: t.App.SignError,
		Egress:    t.App.Egress,
		Guard:     ask,

		TraceParent: parent,
	}
	d.opts.Tokens.Give(&q)
	r := d.opts.Caller.Call(ctx, &q)
	cancelled := done()
	took := time.Since(began)
	d.met.activeAttempts.Dec()
	if each != nil {
		if len(each.refused) > 0 && !each.sent && !cancelled {
			d.opts.Traces.NotSent(e)
			p.called = false // a refusal by the breakers costs the app no permit
			e.Fire.FirstLatenessMS = before
			d.refused(e, each.at, each.refused...)
			return
		}
		d.observeLateness(e, n, late)
	}
	d.opts.Traces.End(e, &r, took)
	if !e.Canary() {
		d.observe(d.met.callSeconds, took.Seconds(), e)
	}
	if e.Epoch.Context().Err() != nil && r.Class != callback.Success {
		// Cancelled because the session expired: not a failed attempt, and no longer ours to
		// record.
		return
	}
	p.report(&r)
	a := Attempt{Result: r, Number: n, Start: start, Took: took}
	if def.Mode == timer.ModeAll && each.refusedSome() && !d.failedSince(e, each.refused) {
		a.Until = each.at // P3: after its last attempt, the fire waits for them
	}
	// Its receiver works on an accepted fire, and may complete it. For one that somebody requested, it
	// is an attempt that failed.
	if cancelled && e.Fire.Series == 0 && r.Class != callback.Success &&
		r.Class != callback.Accepted {
		e.Fire.Attempt = n
		e.Attempted(start.UnixMilli())
		d.end(e, d.outcome(e, timer.Skipped, timer.ReasonCancelled), a.Records(e.Fire.FireID)...)
		return
	}
	d.decide(e, &a)
}

// templateZone returns the zone in which templates show due times; nil means UTC.
func templateZone(d *timer.Definition) *time.Location {
	if d.Schedule.Zone == "" || d.Schedule.Zone == time.UTC.String() {
		return nil
	}
	z, err := zone.Load(d.Schedule.Zone)
	if err != nil {
		return nil
	}
	return z.Location()
}

// observeLateness records the lateness of a fire's first attempt.
func (d *Deliverer) observeLateness(e *inflight.Entry, n int32, lateMS int64) {
	if n == 1 && !e.Canary() {
		d.observe(d.met.lateness, float64(lateMS)/1000, e) //nolint:mnd // ms to s
	}
}

// observe adds a value about a fire to a histogram. If the fire's trace is kept, it is the value's
// exemplar.
func (d *Deliverer) observe(h prometheus.Histogram, value float64, e *inflight.Entry) {
	if id := d.opts.Traces.SampledID(e); id != "" {
		//nolint:forcetypeassert // the library's histograms take exemplars
		h.(prometheus.ExemplarObserver).ObserveWithExemplar(
			value, prometheus.Labels{logging.TraceID: id},
		)
		return
	}
	h.Observe(value)
}

// Skip finishes a fire without a call.
func (d *Deliverer) Skip(e *inflight.Entry, reason timer.Reason) {
	o := d.outcome(e, timer.Skipped, reason)
	// The store knows whether an edit has uncounted the fire already.
	o.Uncounted = e.Def != nil && e.Def.Schedule.MaxFires > 0 && e.Fire.Series == 0 &&
		e.Fire.Attempt == 0 && reason != timer.ReasonDeleted
	d.end(e, o)
}
