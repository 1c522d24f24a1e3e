package tracing

import (
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// maxLinks is how many fires a span links to: the standard's default limit.
const maxLinks = 128

// Batch is an operation on many fires. It has a trace of its own, which links to those of the fires
// that the sampler keeps. If it keeps none of them, there is no trace. A nil *Batch is allowed:
// tracing is off.
type Batch struct {
	tracer *Tracer
	links  []Link
	fires  int64
}

// Batch returns an operation on no fires yet.
func (t *Tracer) Batch() *Batch {
	if t == nil {
		return nil
	}
	return &Batch{tracer: t}
}

// Add adds fires to the operation.
func (b *Batch) Add(fires []timer.Fire) {
	if b == nil {
		return
	}
	b.fires += int64(len(fires))
	for i := range fires {
		if len(b.links) == maxLinks {
			return
		}
		if id := traceid.Of(fires[i].FireID); b.tracer.Samples(id) {
			b.links = append(b.links, linkTo(id))
		}
	}
}

// End exports the span of the operation.
func (b *Batch) End(s *Span) {
	if b == nil || len(b.links) == 0 {
		return
	}
	s.Kind, s.Links = Internal, b.links
	s.Attrs = append(s.Attrs, Int("carillon.fires", b.fires))
	b.tracer.Add(s)
}

// NewID returns the id of a trace that derives from nothing.
func NewID() traceid.ID {
	var id traceid.ID
	high, low := traceid.NewSpan(), traceid.NewSpan()
	copy(id[:8], high[:])
	copy(id[8:], low[:])
	return id
}

// SliceID returns the id of a slice's trace.
func SliceID(minute int64, bucket int32) traceid.ID {
	return traceid.OfText(fmt.Appendf(nil, "slice-%d-%d", minute, bucket))
}

// LinkToSlice returns a link to the trace of a slice.
func LinkToSlice(minute int64, bucket int32) Link { return linkTo(SliceID(minute, bucket)) }

// linkTo returns a link to the root span of a trace that is kept.
func linkTo(id traceid.ID) Link {
	return trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: traceid.RootOf(id), TraceFlags: trace.FlagsSampled,
	})}
}
