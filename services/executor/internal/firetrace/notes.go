package firetrace

import (
	"encoding/hex"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Traces notes what happens to fires and makes their spans. A nil *Traces is allowed, and does
// nothing: tracing is off.
type Traces struct {
	tracer *tracing.Tracer
	now    func() time.Time
}

// New returns nil if the tracer is off.
func New(tracer *tracing.Tracer, now func() time.Time) *Traces {
	if tracer == nil {
		return nil
	}
	return &Traces{tracer: tracer, now: now}
}

// Asked notes that the claim of fires begins.
func (t *Traces) Asked(es []*inflight.Entry) {
	if t == nil {
		return
	}
	now, notes := t.now(), make([]inflight.Trace, len(es))
	for i, e := range es {
		notes[i].Asked = now
		e.Trace = &notes[i]
	}
}

// Claimed notes that fires are claimed.
func (t *Traces) Claimed(es []*inflight.Entry) {
	if t == nil {
		return
	}
	now := t.now()
	for _, e := range es {
		if e.Trace != nil {
			e.Trace.Claimed = now
			e.Trace.Minute, e.Trace.Bucket = e.Fire.RunAtMinute(), e.Fire.Bucket
		}
	}
}

// Begin notes that an attempt begins. It returns the trace context for the receiver, empty if
// tracing is off.
func (t *Traces) Begin(e *inflight.Entry, number int32, start time.Time) string {
	if t == nil || e.Trace == nil || e.Canary() {
		return ""
	}
	n := e.Trace
	a := inflight.TracedAttempt{Span: traceid.NewSpan(), Number: number, Start: start}
	if a.Waited = "retry"; number == 1 {
		h := e.Hops(start.UnixMilli())
		a.Waited, a.WaitedMS = h.WaitedFor.String(), h.WaitedMS
	}
	n.Attempts = append(n.Attempts, a)
	sampled := t.sampled(e) || t.tracer.Keep().Keeps(number, e.Fire.FirstLatenessMS, "")
	return string(traceid.AppendParent(
		make([]byte, 0, traceid.ParentLen), n.ID, a.Span, sampled,
	))
}

// End notes the result of the attempt that began last.
func (t *Traces) End(e *inflight.Entry, r *callback.Result, took time.Duration) {
	if t == nil || e.Trace == nil || len(e.Trace.Attempts) == 0 {
		return
	}
	a := &e.Trace.Attempts[len(e.Trace.Attempts)-1]
	a.Took, a.StatusCode, a.Failure, a.Error = took, r.StatusCode, r.Failure, r.Error
	for i := range r.Targets {
		target := &r.Targets[i]
		a.Targets = append(a.Targets, inflight.TracedTarget{
			Name:       target.Name,
			Start:      target.Start,
			Took:       target.Duration,
			StatusCode: target.StatusCode,
			Failure:    target.Failure,
			Error:      target.Error,
		})
	}
}

// NotSent takes the attempt that began last back: no target was called.
func (t *Traces) NotSent(e *inflight.Entry) {
	if t != nil && e.Trace != nil && len(e.Trace.Attempts) > 0 {
		e.Trace.Attempts = e.Trace.Attempts[:len(e.Trace.Attempts)-1]
	}
}

// Decided notes that the result of a fire goes to the recorder.
func (t *Traces) Decided(e *inflight.Entry) {
	if t != nil && e.Trace != nil {
		e.Trace.Ended = t.now()
	}
}

// SampledID returns the id of a fire's trace in hex if the sampler keeps it, otherwise "".
func (t *Traces) SampledID(e *inflight.Entry) string {
	if t == nil || e.Trace == nil || e.Canary() || !t.sampled(e) {
		return ""
	}
	if e.Trace.Text == "" {
		e.Trace.Text = hex.EncodeToString(e.Trace.ID[:])
	}
	return e.Trace.Text
}

// About adds to a log line which fire it is about, and the fire's trace if that is kept. The caller
// owns the entry.
func (t *Traces) About(e *inflight.Entry) func(line *zerolog.Event) {
	return func(line *zerolog.Event) {
		line.Stringer(logging.Fire, e.Fire.FireID)
		if id := t.SampledID(e); id != "" {
			line.Str(logging.TraceID, id)
		}
	}
}

// sampled returns whether the sampler keeps the trace. The definition and the origin are known by
// then, unless the timer is gone.
func (t *Traces) sampled(e *inflight.Entry) bool {
	n := e.Trace
	if !n.Decided {
		n.Decided, n.ID = true, traceid.Of(e.Fire.FireID)
		n.Sampled = t.tracer.SamplesFire(
			n.ID, e.Origin, e.Def != nil && e.Def.Schedule.Kind.OneShot(),
		)
	}
	return n.Sampled
}

// kept returns whether the trace is exported. o is nil if the fire has no outcome yet.
func (t *Traces) kept(e *inflight.Entry, o *timer.Outcome) bool {
	if t.sampled(e) {
		return true
	}
	attempts, kind := e.Fire.Attempt, timer.OutcomeKind("")
	if e.Fire.State == timer.FireRetrying {
		attempts++ // the next one will come
	}
	if o != nil {
		attempts, kind = e.Fire.Attempt, o.Kind
	}
	return t.tracer.Keep().Keeps(attempts, e.Fire.FirstLatenessMS, kind)
}
