package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// LateFrom is the lateness from which Keep.Late keeps a fire.
const LateFrom = time.Second

// Keep says which fires are kept whatever the sampler says.
type Keep struct{ Late, Failed, Retried, Skipped bool }

// ParseKeep reads a list such as "late,failed".
func ParseKeep(list string) (k Keep, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "late":
			k.Late = true
		case "failed":
			k.Failed = true
		case "retried":
			k.Retried = true
		case "skipped":
			k.Skipped = true
		default:
			return k, errors.New(
				"expected a list of late, failed, retried and skipped, found " +
					fmt.Sprintf("%q", strings.TrimSpace(name)),
			)
		}
	}
	return k, nil
}

// sampling decides which traces are kept.
type sampling struct {
	root     sdktrace.Sampler // of traces that begin here, among them those of fires
	byParent bool
	sampler  sdktrace.Sampler // of spans that are started
	keep     Keep
}

func newSampling(s *settings, k Keep) sampling {
	out := sampling{root: s.root(), byParent: s.byParent(), keep: k}
	others := out.root
	if out.byParent {
		others = sdktrace.ParentBased(out.root)
	}
	out.sampler = decided{others}
	return out
}

// decided samples what the caller has already decided to keep, and leaves the rest to the sampler.
type decided struct{ others sdktrace.Sampler }

// Description implements sdktrace.Sampler.
func (d decided) Description() string { return "Decided{" + d.others.Description() + "}" }

// ShouldSample implements sdktrace.Sampler.
func (d decided) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.ParentContext.Value(idsKey{}) != nil {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return d.others.ShouldSample(p)
}

// Samples returns whether the sampler keeps a trace that derives from an id. Every process with the
// same settings decides the same.
func (t *Tracer) Samples(id traceid.ID) bool {
	return t != nil && t.sampling.root.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: context.Background(), TraceID: id,
	}).Decision == sdktrace.RecordAndSample
}

// SamplesFire is Samples for a fire whose origin is the context of the request that made its timer.
// Where the sampler follows parents, a kept request of a one-shot keeps its fire. The fires of
// other schedules go on for years after the request and do not follow it.
func (t *Tracer) SamplesFire(id traceid.ID, origin string, oneShot bool) bool {
	if t == nil {
		return false
	}
	if oneShot && t.sampling.byParent {
		if parent := parse(origin); parent.IsValid() && parent.IsSampled() {
			return true
		}
	}
	return t.Samples(id)
}

// Keep returns which fires are kept whatever the sampler says.
func (t *Tracer) Keep() Keep {
	if t == nil {
		return Keep{}
	}
	return t.sampling.keep
}

// Keeps reports whether a fire is kept: by its attempts so far, the lateness of the first one, and
// its outcome, which is empty while it has none.
func (k Keep) Keeps(attempts int32, latenessMS int64, outcome timer.OutcomeKind) bool {
	return k.Retried && attempts > 1 || k.Late && latenessMS >= LateFrom.Milliseconds() ||
		k.Failed && outcome == timer.Failed || k.Skipped && outcome == timer.Skipped
}

type idsKey struct{}

// given are the ids of a span that is made afterwards.
type given struct {
	trace trace.TraceID
	span  trace.SpanID
}

// ids generates the ids of spans: those given, otherwise random ones.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if g, ok := ctx.Value(idsKey{}).(*given); ok {
		return g.trace, g.span
	}
	return NewID(), traceid.NewSpan()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if g, ok := ctx.Value(idsKey{}).(*given); ok {
		return g.span
	}
	return traceid.NewSpan()
}
