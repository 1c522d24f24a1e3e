package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment returns variables as name, value, ….
func environment(pairs ...string) tracing.Env {
	return func(key string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func newTracer(
	t testing.TB,
	to sdktrace.SpanExporter,
	pairs ...string,
) (*tracing.Tracer, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	tr, err := tracing.New(context.Background(), tracing.Options{
		Env:        environment(append(pairs, "OTEL_TRACES_EXPORTER", "otlp")...),
		Service:    "carillon-test",
		Logger:     zerolog.Nop(),
		Registerer: reg,
		Exporter:   to,
	})
	require.NoError(t, err)
	require.NotNil(t, tr)
	t.Cleanup(func() { require.NoError(t, tr.Close(context.Background())) })
	return tr, reg
}

// spanList has what was exported, also after the stop.
type spanList struct{ *tracetest.InMemoryExporter }

func newSpanList() spanList { return spanList{tracetest.NewInMemoryExporter()} }

func (spanList) Shutdown(context.Context) error { return nil }

func TestOffUnlessAnExporterOrAnEndpointIsSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pairs []string
		on    bool
		err   string
	}{
		{pairs: nil},
		{pairs: []string{"OTEL_SERVICE_NAME", "x", "OTEL_TRACES_SAMPLER", "always_on"}},
		{pairs: []string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}},
		{pairs: []string{"OTEL_SDK_DISABLED", "TRUE", "OTEL_TRACES_EXPORTER", "otlp"}},
		{pairs: []string{"OTEL_TRACES_EXPORTER", "otlp"}, on: true},
		{pairs: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, on: true},
		{pairs: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c"}, on: true},
		{
			pairs: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
			on:    true,
		},
		{
			pairs: []string{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c",
				"OTEL_EXPORTER_OTLP_ENDPOINT", "of-others:4317",
			},
			on: true,
		},
		{
			pairs: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"},
			err:   "OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL such as",
		},
		{
			pairs: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318"},
			err:   "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: expected a URL such as",
		},
		{
			pairs: []string{"OTEL_TRACES_EXPORTER", "zipkin"},
			err:   "OTEL_TRACES_EXPORTER: expected otlp or none",
		},
		{
			pairs: []string{
				"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json",
			},
			err: "expected grpc or http/protobuf",
		},
		{
			pairs: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_TRACES_SAMPLER", "jaeger_remote"},
			err:   "OTEL_TRACES_SAMPLER: expected",
		},
		{
			pairs: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_TRACES_SAMPLER_ARG", "NaN"},
			err:   "a ratio from 0 to 1",
		},
		{
			pairs: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_BSP_MAX_QUEUE_SIZE", "0"},
			err:   "a number of spans",
		},
	} {
		tr, err := tracing.New(t.Context(), tracing.Options{
			Env: environment(c.pairs...), Registerer: prometheus.NewRegistry(),
		})
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.pairs)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.on, tr != nil, c.pairs)
		require.NoError(t, tr.Close(t.Context()))
	}
}

func TestASpanIsMadeAfterwards(t *testing.T) {
	t.Parallel()
	kept := newSpanList()
	tr, _ := newTracer(t, kept, "OTEL_TRACES_SAMPLER", "always_off")
	id := traceid.Of(timer.FireID{Timer: 1, DueMS: 2})
	root, start := traceid.RootOf(id), time.UnixMilli(1000)
	child := traceid.NewSpan()
	tr.Add(&tracing.Span{
		Trace: id, ID: root, Name: "fire", Start: start, End: start.Add(time.Second),
		Links: tracing.LinkTo(caller), Attrs: []tracing.Attr{tracing.Int("n", 1)},
	})
	tr.Add(&tracing.Span{
		Trace: id, ID: child, Parent: root, Name: "attempt", Start: start, End: start.Add(-1),
		Failed: "no answer",
	})
	require.NoError(t, tr.Close(t.Context()))
	spans := kept.GetSpans()
	require.Len(t, spans, 2)
	require.Equal(t, id, [16]byte(spans[0].SpanContext.TraceID()))
	require.Equal(t, root, [8]byte(spans[0].SpanContext.SpanID()))
	require.False(t, spans[0].Parent.IsValid())
	require.Equal(t, "b7ad6b7169203331", spans[0].Links[0].SpanContext.SpanID().String())
	require.True(t, spans[0].StartTime.Equal(start))
	require.True(t, spans[0].EndTime.Equal(start.Add(time.Second)))
	require.Equal(t, child, [8]byte(spans[1].SpanContext.SpanID()))
	require.Equal(t, root, [8]byte(spans[1].Parent.SpanID()))
	require.Equal(t, id, [16]byte(spans[1].SpanContext.TraceID()))
	require.True(t, spans[1].EndTime.Equal(start), "never before its start")
	require.Equal(t, "no answer", spans[1].Status.Description)
}

// slowCollector answers nothing until it is told to stop.
type slowCollector struct{ stop chan struct{} }

func (c slowCollector) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case <-c.stop:
	case <-ctx.Done():
	}
	return errors.New("no answer")
}

func (slowCollector) Shutdown(context.Context) error { return nil }

// TestNobodyWaitsForTheCollector checks that spans are dropped and counted once the queue is full,
// and that a stop is bounded.
func TestNobodyWaitsForTheCollector(t *testing.T) {
	t.Parallel()
	away := slowCollector{make(chan struct{})}
	tr, reg := newTracer(t, away, "OTEL_BSP_MAX_QUEUE_SIZE", "10")
	began := time.Now()
	for i := range 1000 {
		id := traceid.Of(timer.FireID{Timer: 1, DueMS: int64(i)})
		tr.Add(&tracing.Span{Trace: id, ID: traceid.RootOf(id), Name: "fire", Start: began})
	}
	require.Less(t, time.Since(began), 10*time.Second, "it would wait for good")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_trace_spans_total Spans of traces, by what became of them: exported, failed (the collector did not take them), dropped (the queue was full).
# TYPE carillon_trace_spans_total counter
carillon_trace_spans_total{result="dropped"} 990
carillon_trace_spans_total{result="exported"} 0
carillon_trace_spans_total{result="failed"} 0
`)))
	require.NoError(t, tr.Close(t.Context()))
	require.Less(t, time.Since(began), time.Minute)
	close(away.stop)
}

// TestABatchLinksToWhatIsKept checks that an operation has a trace only for fires that are traced,
// and that the executor's link leads to the slice.
func TestABatchLinksToWhatIsKept(t *testing.T) {
	t.Parallel()
	kept := newSpanList()
	tr, _ := newTracer(t, kept,
		"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.01")
	fires := make([]timer.Fire, 2000)
	sampled := 0
	var dropped timer.Fire
	for i := range fires {
		fires[i].FireID = timer.FireID{Timer: 3, DueMS: int64(i)}
		if tr.Samples(traceid.Of(fires[i].FireID)) {
			sampled++
		} else {
			dropped = fires[i]
		}
	}
	end := func(fires ...timer.Fire) {
		id := tracing.SliceID(7, 2)
		b := tr.Batch()
		b.Add(fires)
		b.End(&tracing.Span{Trace: id, ID: traceid.RootOf(id), Name: "slice", Start: time.Now()})
	}
	end(fires...)
	end(dropped)
	require.NoError(t, tr.Close(t.Context()))
	spans := kept.GetSpans()
	require.Len(t, spans, 1)
	require.Len(t, spans[0].Links, sampled)
	link := tracing.LinkToSlice(7, 2).SpanContext
	require.Equal(t, spans[0].SpanContext.TraceID(), link.TraceID())
	require.Equal(t, spans[0].SpanContext.SpanID(), link.SpanID())
	(*tracing.Tracer)(nil).Batch().Add(fires)
	(*tracing.Tracer)(nil).Batch().End(nil)
}

func TestSampling(t *testing.T) {
	t.Parallel()
	fires := func(tr *tracing.Tracer, origin string, oneShot bool) (n int) {
		for i := range 10_000 {
			if tr.SamplesFire(
				traceid.Of(timer.FireID{Timer: 7, DueMS: int64(i)}),
				origin,
				oneShot,
			) {
				n++
			}
		}
		return n
	}
	byRatio, _ := newTracer(t, tracetest.NewInMemoryExporter(),
		"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.1")
	require.InDelta(t, 1000, fires(byRatio, "", true), 150)
	require.InDelta(t, 1000, fires(byRatio, caller, false), 150, "a schedule outlives its request")
	require.Equal(t, 10_000, fires(byRatio, caller, true))
	require.InDelta(t, 1000, fires(byRatio, strings.TrimSuffix(caller, "1")+"0", true), 150)
	alone, _ := newTracer(t, tracetest.NewInMemoryExporter(),
		"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.1")
	require.InDelta(t, 1000, fires(alone, caller, true), 150)
	require.False(t, (*tracing.Tracer)(nil).SamplesFire(traceid.ID{}, caller, true))
}

func TestOriginOfARequest(t *testing.T) {
	t.Parallel()
	kept := newSpanList()
	on, _ := newTracer(t, kept)
	for name, c := range map[string]struct {
		tracer       *tracing.Tracer
		header, want string
	}{
		"off":              {nil, caller, caller},
		"off and no trace": {nil, "", ""},
		"invalid":          {nil, "00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
		"not hex":          {nil, strings.Replace(caller, "a", "x", 1), ""},
		"upper case":       {nil, strings.ToUpper(caller), ""},
		"later version":    {nil, "01" + caller[2:] + "-what-comes", caller},
		"not sampled":      {on, caller[:54] + "0", caller[:54] + "0"},
	} {
		q := httptest.NewRequest(http.MethodPost, "/api/v2/timers", nil)
		q.Header.Set("Traceparent", c.header)
		r, span := c.tracer.Begin(q)
		require.Equal(t, c.want, tracing.Origin(r.Context()), name)
		span.End(http.MethodPost, "/api/v2/timers", http.StatusCreated)
	}
	q := httptest.NewRequest(http.MethodPost, "/api/v2/timers", nil)
	q.Header.Set("Traceparent", caller)
	r, span := on.Begin(q)
	span.End(http.MethodPost, "/api/v2/timers", http.StatusServiceUnavailable)
	require.NoError(t, on.Close(t.Context()))
	spans := kept.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, "POST /api/v2/timers", spans[0].Name)
	require.Equal(t, "b7ad6b7169203331", spans[0].Parent.SpanID().String())
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", tracing.TraceID(r.Context()))
	require.Equal(t,
		"00-0af7651916cd43dd8448eb211c80319c-"+spans[0].SpanContext.SpanID().String()+"-01",
		tracing.Origin(r.Context()))
	require.Equal(t, "Service Unavailable", spans[0].Status.Description)
}

func TestParseKeep(t *testing.T) {
	t.Parallel()
	k, err := tracing.ParseKeep("late, failed,skipped,retried")
	require.NoError(t, err)
	require.Equal(t, tracing.Keep{Late: true, Failed: true, Retried: true, Skipped: true}, k)
	k, err = tracing.ParseKeep("")
	require.NoError(t, err)
	require.Equal(t, tracing.Keep{}, k)
	_, err = tracing.ParseKeep("slow")
	require.ErrorContains(t, err, `found "slow"`)
}

func BenchmarkSampled(b *testing.B) {
	tr, _ := newTracer(b, tracetest.NewNoopExporter(),
		"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.01")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.SamplesFire(traceid.Of(timer.FireID{Timer: 7, DueMS: int64(i)}), "", false)
	}
}

// TestAnAbsentCollectorFailsNothing checks the real exporters against a port that nobody listens on.
func TestAnAbsentCollectorFailsNothing(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
		reg := prometheus.NewRegistry()
		tr, err := tracing.New(t.Context(), tracing.Options{
			Env: os.LookupEnv, Service: "x", Logger: zerolog.Nop(), Registerer: reg,
		})
		require.NoError(t, err)
		id := traceid.Of(timer.FireID{Timer: 1, DueMS: 1})
		tr.Add(&tracing.Span{Trace: id, ID: traceid.RootOf(id), Name: "fire", Start: time.Now()})
		require.NoError(t, tr.Close(t.Context()))
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_trace_spans_total Spans of traces, by what became of them: exported, failed (the collector did not take them), dropped (the queue was full).
# TYPE carillon_trace_spans_total counter
carillon_trace_spans_total{result="dropped"} 0
carillon_trace_spans_total{result="exported"} 0
carillon_trace_spans_total{result="failed"} 1
`)), protocol)
	}
}
