package firetrace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/tracingtest"
	"github.com/carillon-timer/carillon/services/executor/internal/firetrace"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// life notes the life of a fire that is delivered at once, as the executor does.
func life(t *firetrace.Traces, es []*inflight.Entry, r *callback.Result, o *timer.Outcome) {
	t.Asked(es)
	t.Claimed(es)
	for _, e := range es {
		t.Begin(e, 1, time.Time{})
		t.SampledID(e)
		t.End(e, r, time.Millisecond)
		t.SampledID(e)
		t.Decided(e)
		t.Recorded(e, o)
	}
}

func batch(n int) []*inflight.Entry {
	es := make([]*inflight.Entry, n)
	for i := range es {
		es[i] = &inflight.Entry{
			App: "shop", Name: "timer",
			Fire: timer.Fire{FireID: timer.FireID{Timer: 1 << 50, DueMS: int64(i)}},
			Def:  &timer.Definition{Schedule: timer.Schedule{Kind: timer.KindCron}},
		}
	}
	return es
}

// TestNothingIsAllocatedWhileTracingIsOff checks the cost of what the executor calls for each fire.
func TestNothingIsAllocatedWhileTracingIsOff(t *testing.T) {
	off := firetrace.New(nil, time.Now)
	require.Nil(t, off)
	es, r, o := batch(100), &callback.Result{StatusCode: 200}, &timer.Outcome{Attempts: 1}
	require.Zero(t, testing.AllocsPerRun(10, func() { life(off, es, r, o) }))
}

// BenchmarkFire measures what tracing costs a fire. One op is one fire, claimed with 99 others.
func BenchmarkFire(b *testing.B) {
	for name, ratio := range map[string]string{"off": "", "ratio 0.01": "0.01", "ratio 1": "1"} {
		b.Run(name, func(b *testing.B) {
			var tracer *tracing.Tracer
			if ratio != "" {
				tracer, _ = tracingtest.New(b, tracing.Keep{}, map[string]string{
					"OTEL_TRACES_SAMPLER":     "parentbased_traceidratio",
					"OTEL_TRACES_SAMPLER_ARG": ratio,
					"OTEL_BSP_MAX_QUEUE_SIZE": "2048",
				})
			}
			t := firetrace.New(tracer, time.Now)
			es, r, o := batch(100), &callback.Result{StatusCode: 200}, &timer.Outcome{Attempts: 1}
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(es) {
				for i, e := range es {
					e.Fire.DueMS = int64(n + i)
				}
				life(t, es, r, o)
			}
		})
	}
}
