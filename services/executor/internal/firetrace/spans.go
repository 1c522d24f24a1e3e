package firetrace

import (
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Recorded makes the spans of fires whose results are recorded now. An outcome is nil if its fire
// has none: it was released, or another session recorded it. Then the trace gets what happened
// here, and its root span from the executor that ends the fire.
func (t *Traces) Recorded(e *inflight.Entry, o *timer.Outcome) {
	if t == nil || e.Trace == nil || e.Canary() || !t.kept(e, o) {
		return
	}
	now := t.now()
	m := maker{
		tracer: t.tracer,
		entry:  e,
		hops:   e.Hops(now.UnixMilli()),
		now:    now,
		root:   traceid.RootOf(e.Trace.ID),
	}
	m.fire(o)
	m.dispatch()
	m.claim()
	m.attempts()
	m.record()
}

// maker makes the spans of one fire.
type maker struct {
	tracer *tracing.Tracer
	entry  *inflight.Entry
	hops   timer.Hops
	now    time.Time
	root   traceid.SpanID
}

// fire makes the root span: from the planned instant, or the dispatch before it, to the record.
func (m *maker) fire(o *timer.Outcome) {
	if o == nil {
		return
	}
	e := m.entry
	start := time.UnixMilli(e.Fire.DueMS)
	if e.Def != nil {
		start = time.UnixMilli(e.PlannedMS())
	}
	for _, at := range []time.Time{m.dispatched(), e.Trace.Asked} {
		if !at.IsZero() && at.Before(start) {
			start = at
		}
	}
	ended := &tracing.EndedFire{
		Outcome: o,
		App:     e.App,
		Name:    e.Name,
		Origin:  e.Origin,
		Start:   start,
		End:     m.now,
	}
	// Slices are traced by the fires that the sampler keeps.
	if m.hops.Path == timer.PathSlice && m.tracer.Samples(e.Trace.ID) {
		ended.Links = []tracing.Link{tracing.LinkToSlice(e.Trace.Minute, e.Trace.Bucket)}
	}
	m.tracer.End(ended)
}

// child makes a span below the root.
func (m *maker) child(name string, start, end time.Time, attrs ...tracing.Attr) {
	m.tracer.Add(&tracing.Span{
		Trace:  m.entry.Trace.ID,
		ID:     traceid.NewSpan(),
		Parent: m.root,
		Name:   name,
		Kind:   tracing.Internal,
		Start:  start,
		End:    end,
		Attrs:  attrs,
	})
}

// dispatched returns when the task was published, or zero if no task brought the fire.
func (m *maker) dispatched() time.Time {
	if m.hops.DispatchedMS == 0 {
		return time.Time{}
	}
	return time.UnixMilli(m.hops.DispatchedMS)
}

// dispatch makes the span of the task, from its publication until it is to be claimed.
func (m *maker) dispatch() {
	if at := m.dispatched(); !at.IsZero() {
		m.child("dispatch", at, m.entry.Trace.Asked)
	}
}

func (m *maker) claim() {
	n := m.entry.Trace
	if !n.Claimed.IsZero() {
		m.child("claim", n.Asked, n.Claimed, tracing.String("carillon.path", m.hops.Path.String()))
	}
}

// attempts makes a span of each attempt, and of the wait before it.
func (m *maker) attempts() {
	n := m.entry.Trace
	from := n.Claimed
	for i := range n.Attempts {
		a := &n.Attempts[i]
		m.wait(from, a.Start, a.Waited, a.WaitedMS)
		m.attempt(a)
		from = a.Start.Add(a.Took)
	}
	if len(n.Attempts) == 0 {
		m.wait(from, n.Ended, m.hops.WaitedFor.String(), m.hops.WaitedMS)
	}
}

// wait makes the span of a wait for the run time, and then longest for something else.
func (m *maker) wait(from, to time.Time, then string, thenMS int64) {
	if from.IsZero() || !to.After(from) {
		return
	}
	m.child("wait", from, to,
		tracing.String("carillon.waited_for", then),
		tracing.Int("carillon.waited_ms", thenMS))
}

func (m *maker) attempt(a *inflight.TracedAttempt) {
	kind, target := tracing.Client, timer.KindHTTP
	if d := m.entry.Def; d != nil {
		target = d.Target.Kind
		if callback.Topic(&d.Target) != "" {
			kind = tracing.Producer
		}
	}
	attrs := append(
		tracing.Identity(m.entry.Fire.FireID, m.entry.App, m.entry.Name),
		tracing.Int("carillon.attempt", int64(a.Number)),
	)
	m.tracer.Add(&tracing.Span{
		Trace:  m.entry.Trace.ID,
		ID:     a.Span,
		Parent: m.root,
		Name:   "attempt",
		Kind:   kind,
		Start:  a.Start,
		End:    a.Start.Add(a.Took),
		Attrs:  append(attrs, result(target, a.StatusCode, a.Failure)...),
		Failed: failed(a.Failure, a.Error),
	})
	for i := range a.Targets {
		t := &a.Targets[i]
		m.tracer.Add(&tracing.Span{
			Trace:  m.entry.Trace.ID,
			ID:     traceid.NewSpan(),
			Parent: a.Span,
			Name:   "target",
			Kind:   tracing.Client,
			Start:  t.Start,
			End:    t.Start.Add(t.Took),
			Attrs: append(
				result("", t.StatusCode, t.Failure),
				tracing.String("carillon.target", t.Name),
			),
			Failed: failed(t.Failure, t.Error),
		})
	}
}

// result says how a call ended, by the names of the standard where it has them.
func result(kind timer.TargetKind, status int32, f timer.Failure) (attrs []tracing.Attr) {
	switch {
	case status != 0 && kind == timer.KindHTTP:
		attrs = append(attrs, tracing.Int("http.response.status_code", int64(status)))
	case status != 0:
		attrs = append(attrs, tracing.Int("carillon.status_code", int64(status)))
	}
	if f != timer.FailureNone {
		attrs = append(attrs, tracing.String("error.type", string(f)))
	}
	return attrs
}

func failed(f timer.Failure, text string) string {
	if f != timer.FailureNone && text == "" {
		return string(f)
	}
	return text
}

func (m *maker) record() {
	if n := m.entry.Trace; !n.Ended.IsZero() {
		m.child("record", n.Ended, m.now)
	}
}
