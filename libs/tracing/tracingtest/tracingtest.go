// Package tracingtest provides a tracer for tests, whose spans can be read.
package tracingtest

import (
	"context"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/carillon-timer/carillon/libs/tracing"
)

// Span is an exported span. Ids are in hex.
type Span struct {
	Trace, ID, Parent string // Parent is empty for the root of a trace
	Name              string
	Kind              tracing.Kind
	Start, End        time.Time
	Attrs             map[string]string
	Links             []string // of the linked spans: trace, "-", id
	Failed            string
}

// Exported are the spans that a tracer has exported. It is safe for concurrent use.
type Exported struct {
	mu     sync.Mutex
	spans  []Span
	tracer *tracing.Tracer
}

// New returns a tracer with the given variables of the environment, and what it exports.
func New(t testing.TB, keep tracing.Keep, env map[string]string) (*tracing.Tracer, *Exported) {
	t.Helper()
	e := new(Exported)
	var err error
	e.tracer, err = tracing.New(context.Background(), tracing.Options{
		Env: func(key string) (string, bool) {
			if key == "OTEL_TRACES_EXPORTER" {
				return "otlp", true
			}
			v, ok := env[key]
			return v, ok
		},
		Service:    "carillon-test",
		Keep:       keep,
		Logger:     zerolog.Nop(),
		Registerer: prometheus.NewRegistry(),
		Exporter:   e,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.tracer.Close(context.Background())) })
	return e.tracer, e
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *Exported) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range spans {
		trace := s.SpanContext().TraceID()
		out := Span{
			Trace:  hex.EncodeToString(trace[:]),
			ID:     s.SpanContext().SpanID().String(),
			Name:   s.Name(),
			Kind:   s.SpanKind(),
			Start:  s.StartTime(),
			End:    s.EndTime(),
			Attrs:  make(map[string]string),
			Failed: s.Status().Description,
		}
		if s.Parent().IsValid() {
			out.Parent = s.Parent().SpanID().String()
		}
		for _, a := range s.Attributes() {
			out.Attrs[string(a.Key)] = a.Value.String()
		}
		for _, l := range s.Links() {
			out.Links = append(
				out.Links,
				l.SpanContext.TraceID().String()+"-"+l.SpanContext.SpanID().String(),
			)
		}
		e.spans = append(e.spans, out)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (e *Exported) Shutdown(context.Context) error { return nil }

// Spans stops the tracer and returns its spans.
func (e *Exported) Spans(t testing.TB) []Span {
	t.Helper()
	require.NoError(t, e.tracer.Close(context.Background()))
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spans
}
