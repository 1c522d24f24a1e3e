package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// Attr is an attribute of a span.
type Attr = attribute.KeyValue

// String returns an attribute.
func String(key, value string) Attr { return attribute.String(key, value) }

// Int returns an attribute.
func Int(key string, value int64) Attr { return attribute.Int64(key, value) }

// Kind is the side of a call that a span is on.
type Kind = trace.SpanKind

// The kinds.
const (
	Internal = trace.SpanKindInternal
	Client   = trace.SpanKindClient
	Producer = trace.SpanKindProducer
)

// Span is made after what it describes.
type Span struct {
	Trace  traceid.ID
	ID     traceid.SpanID
	Parent traceid.SpanID // zero: it is the root of its trace
	Name   string
	Kind   Kind
	Start  time.Time
	End    time.Time // not before Start; otherwise it is Start
	Attrs  []Attr
	Links  []Link
	Failed string // why what it describes failed; empty: it did not
}

// LinkTo returns a link to the context of a request, or none if there is no valid context.
func LinkTo(traceparent string) []Link {
	c := parse(traceparent)
	if !c.IsValid() {
		return nil
	}
	return []Link{{SpanContext: c}}
}

// Add exports a span that the caller has decided to keep.
func (t *Tracer) Add(s *Span) {
	if t == nil {
		return
	}
	ctx := context.WithValue(context.Background(), idsKey{}, &given{s.Trace, s.ID})
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(s.Start), trace.WithSpanKind(s.Kind),
		trace.WithAttributes(s.Attrs...), trace.WithLinks(s.Links...),
	}
	if s.Parent != (traceid.SpanID{}) {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: s.Trace, SpanID: s.Parent, TraceFlags: trace.FlagsSampled,
		}))
	}
	_, span := t.tracer.Start(ctx, s.Name, opts...)
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	end := s.End
	if end.Before(s.Start) {
		end = s.Start
	}
	span.End(trace.WithTimestamp(end))
}
