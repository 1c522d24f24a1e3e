package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds the export of what is left at a stop.
const flushTimeout = 3 * time.Second

const scope = "github.com/carillon-timer/carillon"

// Options of a tracer.
type Options struct {
	Env     Env    // where OTEL_… are looked up; the exporters read the process's own
	Service string // name of the service, unless OTEL_SERVICE_NAME says another
	Version string // of the program
	Keep    Keep   // which fires are kept whatever the sampler says

	Logger     zerolog.Logger
	Registerer prometheus.Registerer

	// Exporter replaces the exporter that the environment names, for tests; nil: it does not.
	Exporter sdktrace.SpanExporter
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampling sampling
	log      zerolog.Logger
}

// New returns a tracer, or nil if the environment switches tracing on nowhere. It connects to
// nothing: an absent collector delays and fails nothing.
func New(ctx context.Context, o Options) (*Tracer, error) {
	s, err := readSettings(o.Env)
	if err != nil || s.protocol == "" {
		return nil, err
	}
	to := o.Exporter
	if to == nil {
		if to, err = newExporter(ctx, s.protocol); err != nil {
			return nil, fmt.Errorf("making the exporter of traces: %w", err)
		}
	}
	describes, err := describe(ctx, &o, s.serviceName)
	if err != nil {
		return nil, err
	}
	t := &Tracer{sampling: newSampling(&s, o.Keep), log: o.Logger}
	// The standard's library reports what it cannot return to one handler per process.
	quiet := o.Logger.Sample(&zerolog.BurstSampler{Burst: 1, Period: 10 * time.Second})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		quiet.Warn().Err(err).Msg("traces not exported")
	}))
	q := newQueue(s.queue, to, o.Registerer)
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(describes),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(t.sampling.sampler),
		sdktrace.WithSpanProcessor(q),
	)
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

func newExporter(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	if protocol == overGRPC {
		return otlptrace.New(ctx, otlptracegrpc.NewClient())
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient())
}

// describe returns what the spans are told to be of. The environment (OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME) wins over the program.
func describe(ctx context.Context, o *Options, name string) (*resource.Resource, error) {
	r, err := resource.New(
		ctx,
		resource.WithAttributes(
			attribute.String("service.name", o.Service),
			attribute.String("service.version", o.Version),
		),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describing the program to traces: %w", err)
	}
	if name == "" {
		return r, nil
	}
	named, err := resource.Merge(r, resource.NewSchemaless(attribute.String("service.name", name)))
	if err != nil {
		return nil, fmt.Errorf("describing the program to traces: %w", err)
	}
	return named, nil
}

// Close exports what is left, for at most flushTimeout, and stops. What is not exported by then is
// lost, which is no reason for the program to fail.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn().Err(err).Msg("traces not exported at the stop")
	}
	return nil
}
