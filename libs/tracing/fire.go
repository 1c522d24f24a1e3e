package tracing

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// Link is a link of a span to another one.
type Link = trace.Link

// EndedFire is a fire with its outcome, which is the root span of its trace.
type EndedFire struct {
	*timer.Outcome

	App, Name, Origin string // of the timer
	Start, End        time.Time
	Links             []Link // besides the origin
}

// Identity says which fire of which timer a span is about.
func Identity(fire timer.FireID, app, name string) []Attr {
	return []Attr{
		String("carillon.app", app),
		String("carillon.timer.name", name),
		String("carillon.timer.id", fire.Timer.String()),
		String("carillon.fire.id", fire.String()),
		String("carillon.due", time.UnixMilli(fire.DueMS).UTC().Format(time.RFC3339Nano)),
	}
}

// End exports the root span of a fire whose trace is kept.
func (t *Tracer) End(f *EndedFire) {
	if t == nil {
		return
	}
	o := f.Outcome
	attrs := append(Identity(o.FireID, f.App, f.Name),
		String("carillon.fire.cause", o.Cause.String()),
		String("carillon.outcome", string(o.Kind)),
		Int("carillon.attempts", int64(o.Attempts)),
		Int("carillon.timer.version", int64(o.Version)),
	)
	if o.Reason != timer.ReasonNone {
		attrs = append(attrs, String("carillon.reason", string(o.Reason)))
	}
	if o.Attempts > 0 {
		attrs = append(attrs, Int("carillon.lateness_ms", o.LatenessMS))
	}
	id := traceid.Of(o.FireID)
	s := &Span{
		Trace: id,
		ID:    traceid.RootOf(id),
		Name:  "fire",
		Kind:  Internal,
		Start: f.Start,
		End:   f.End,
		Attrs: attrs,
		Links: append(LinkTo(f.Origin), f.Links...),
	}
	if o.Kind == timer.Failed {
		s.Failed = string(o.Reason)
	}
	t.Add(s)
}
