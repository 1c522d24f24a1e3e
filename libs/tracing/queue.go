package tracing

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queue is the batch processor of the standard's library, behind a counter of the spans that wait.
// The processor drops what does not fit without telling. Here the counter refuses first.
type queue struct {
	sdktrace.SpanProcessor

	max     int64
	waiting *atomic.Int64
	dropped prometheus.Counter
}

func newQueue(size int, to sdktrace.SpanExporter, reg prometheus.Registerer) *queue {
	spans := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_trace_spans_total",
		Help: "Spans of traces, by what became of them: exported, failed (the collector did not take them), dropped (the queue was full).",
	}, []string{"result"})
	waiting := new(atomic.Int64)
	return &queue{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(
			&countingExporter{
				SpanExporter: to,
				waiting:      waiting,
				exported:     spans.WithLabelValues("exported"),
				failed:       spans.WithLabelValues("failed"),
			},
			sdktrace.WithMaxQueueSize(size),
		),
		max:     int64(size),
		waiting: waiting,
		dropped: spans.WithLabelValues("dropped"),
	}
}

// OnEnd queues a span, or drops it.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.max {
		q.waiting.Add(-1)
		q.dropped.Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// countingExporter counts what became of spans.
type countingExporter struct {
	sdktrace.SpanExporter

	waiting          *atomic.Int64
	exported, failed prometheus.Counter
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *countingExporter) ExportSpans(
	ctx context.Context,
	spans []sdktrace.ReadOnlySpan,
) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.failed.Add(float64(len(spans)))
		return err //nolint:wrapcheck // the library's handler logs it
	}
	e.exported.Add(float64(len(spans)))
	return nil
}
