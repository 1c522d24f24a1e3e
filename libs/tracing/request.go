package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// HeaderTraceParent is the header of the W3C trace context.
const HeaderTraceParent = "Traceparent"

// Request is the span of a request to the API.
type Request struct{ span trace.Span } // nil: tracing is off

type originKey struct{}

// Begin begins the span of a request, as a child of the caller's. It returns the request with its
// origin, see Origin. The request is the same one if it has none.
func (t *Tracer) Begin(r *http.Request) (*http.Request, Request) {
	ctx := r.Context()
	caller := parse(r.Header.Get(HeaderTraceParent))
	if caller.IsValid() {
		ctx = context.WithValue(ctx, originKey{}, text(caller))
	}
	switch {
	case t == nil && caller.IsValid():
		return r.WithContext(ctx), Request{}
	case t == nil:
		return r, Request{}
	}
	if caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	}
	ctx, span := t.tracer.Start(
		ctx,
		r.Method,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method)),
	)
	if c := span.SpanContext(); c.IsSampled() {
		ctx = context.WithValue(ctx, originKey{}, text(c))
	}
	return r.WithContext(ctx), Request{span}
}

// End ends the span. route is the pattern of the path, which has no ids.
func (r Request) End(method, route string, status int) {
	if r.span == nil {
		return
	}
	r.span.SetName(method + " " + route)
	r.span.SetAttributes(
		attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status),
	)
	if status >= http.StatusInternalServerError {
		r.span.SetStatus(codes.Error, http.StatusText(status))
	}
	r.span.End()
}

// TraceID returns the id of the request's trace in hex, or "" if the request is in none.
func TraceID(ctx context.Context) string {
	origin := Origin(ctx)
	if origin == "" {
		return ""
	}
	return parse(origin).TraceID().String()
}

// Origin returns the W3C traceparent of the request in whose context something is done: the span of
// the request if it is exported, otherwise the caller's span, otherwise "". It is never invalid.
func Origin(ctx context.Context) string {
	origin, _ := ctx.Value(originKey{}).(string)
	return origin
}

// parse reads a W3C traceparent. What is invalid returns an invalid context.
func parse(traceparent string) trace.SpanContext {
	if len(traceparent) < traceid.ParentLen {
		return trace.SpanContext{}
	}
	// A later version may be longer. Only the parts of version 00 are read of it.
	ctx := propagation.TraceContext{}.Extract(
		context.Background(),
		propagation.MapCarrier{"traceparent": traceparent},
	)
	return trace.SpanContextFromContext(ctx)
}

// text returns the W3C traceparent of a context.
func text(c trace.SpanContext) string {
	return string(traceid.AppendParent(
		make([]byte, 0, traceid.ParentLen), c.TraceID(), c.SpanID(), c.IsSampled(),
	))
}
