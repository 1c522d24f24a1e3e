package executor_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/libs/tracing/tracingtest"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

const origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

// traced runs fires of one-shots that were made by a traced request, and returns what was exported.
func traced(
	t *testing.T,
	keep tracing.Keep,
	sampler string,
	r *receiver,
	reg *prometheus.Registry,
	defs ...timer.Definition,
) ([]tracingtest.Span, []timer.Fire) {
	t.Helper()
	tracer, exported := tracingtest.New(t, keep, map[string]string{"OTEL_TRACES_SAMPLER": sampler})
	parts := servicetest.New(t, servicetest.Options{})
	stop := start(t, parts, "one", r, func(o *executor.Options) {
		o.Tracer = tracer
		o.Registerer = reg
	})
	var fires []timer.Fire
	for _, d := range defs {
		made, err := parts.Store.Create(t.Context(), []store.NewTimer{
			{
				App:        "a",
				Name:       parts.IDs.Next().String(),
				Definition: d,
				Activate:   true,
				Origin:     origin,
			},
		}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		fires = append(fires, made[0].Fires...)
	}
	time.Sleep(100 * time.Millisecond)
	parts.Dispatch.Committed(t.Context(), fires)
	time.Sleep(30 * time.Second)
	stop()
	return exported.Spans(t), fires
}

func named(spans []tracingtest.Span, name string) (out []tracingtest.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestTheLifeOfAFireIsATrace checks the spans of a fire that is delivered at the second attempt.
func TestTheLifeOfAFireIsATrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{
			takes: 10 * time.Millisecond,
			answer: func(q *callback.Request) callback.Result {
				if q.Attempt == 1 {
					return callback.Result{
						Class:      callback.Retry,
						StatusCode: 503,
						Failure:    timer.FailureStatus,
						Error:      "answered 503",
					}
				}
				return callback.Result{StatusCode: 200}
			},
		}
		reg := prometheus.NewRegistry()
		spans, fires := traced(t, tracing.Keep{}, "always_on", r, reg, soon(1, time.Second)...)
		id := traceid.Of(fires[0].FireID)
		root := named(spans, "fire")
		require.Len(t, root, 1)
		require.Empty(t, root[0].Parent)
		require.Equal(t, []string{origin[3:52]}, root[0].Links)
		require.Equal(t, "delivered", root[0].Attrs["carillon.outcome"])
		require.Equal(t, "2", root[0].Attrs["carillon.attempts"])
		require.Equal(t, "a", root[0].Attrs["carillon.app"])
		require.Equal(t, fires[0].String(), root[0].Attrs["carillon.fire.id"])
		for _, s := range spans {
			require.Equal(t, hex.EncodeToString(id[:]), s.Trace)
			require.False(t, s.Start.Before(root[0].Start), s.Name)
			require.False(t, s.End.After(root[0].End), s.Name)
			if s.Name != "fire" {
				require.Equal(t, root[0].ID, s.Parent)
			}
		}
		attempts := named(spans, "attempt")
		require.Len(t, attempts, 2)
		require.Equal(t, "answered 503", attempts[0].Failed)
		require.Equal(t, "503", attempts[0].Attrs["http.response.status_code"])
		require.Equal(t, 10*time.Millisecond, attempts[0].End.Sub(attempts[0].Start))
		require.Empty(t, attempts[1].Failed)
		require.Len(t, named(spans, "dispatch"), 1)
		claims := named(spans, "claim")
		require.Len(t, claims, 1)
		require.Equal(t, "direct", claims[0].Attrs["carillon.path"])
		require.Len(t, named(spans, "record"), 1)
		waits := named(spans, "wait")
		require.Len(t, waits, 2)
		require.Equal(
			t,
			"store",
			waits[0].Attrs["carillon.waited_for"],
			"a lookup, after its run time",
		)
		require.Equal(t, "retry", waits[1].Attrs["carillon.waited_for"])
		calls, _ := r.seen()
		for i, c := range calls {
			require.Equal(t, "00-"+attempts[i].Trace+"-"+attempts[i].ID+"-01", c.TraceParent)
		}
		require.Equal(t, attempts[0].Trace, exemplar(t, reg, "carillon_lateness_seconds"))
		require.Equal(t, attempts[0].Trace, exemplar(t, reg, "carillon_callback_seconds"))
	})
}

// exemplar returns the trace id of a histogram's exemplars, which are all of one trace.
func exemplar(t *testing.T, reg *prometheus.Registry, name string) (id string) {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			if e := b.GetExemplar(); e != nil {
				require.Len(t, e.GetLabel(), 1)
				id = e.GetLabel()[0].GetValue()
			}
		}
	}
	return id
}

// TestWhatIsKeptWhateverTheSamplerSays checks the decisions that depend on the outcome.
func TestWhatIsKeptWhateverTheSamplerSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep tracing.Keep
		want []string // of the paths
	}{
		"nothing": {},
		"failed":  {tracing.Keep{Failed: true}, []string{"failed"}},
		"retried": {tracing.Keep{Retried: true}, []string{"delivered"}},
		"skipped": {tracing.Keep{Skipped: true}, []string{"skipped"}},
		"all": {
			tracing.Keep{Failed: true, Retried: true, Skipped: true, Late: true},
			[]string{"delivered", "failed", "skipped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: func(q *callback.Request) callback.Result {
					switch {
					case q.Target.URL == "http://failed":
						return callback.Result{Class: callback.Reject, Failure: timer.FailureStatus}
					case q.Target.URL == "http://retried" && q.Attempt == 1:
						return callback.Result{Class: callback.Retry, Failure: timer.FailureReset}
					}
					return callback.Result{StatusCode: 200}
				}}
				at := time.Now().Add(2 * time.Second)
				skipped := servicetest.Once(time.Now().Add(time.Millisecond), "http://skipped")
				skipped.Misfire = timer.Misfire{
					Policy: timer.MisfireSkip, Grace: timer.Duration(time.Millisecond),
				}
				spans, _ := traced(t, c.keep, "always_off", r, prometheus.NewRegistry(),
					servicetest.Once(at, "http://fine"), servicetest.Once(at, "http://failed"),
					servicetest.Once(at, "http://retried"), skipped)
				var got []string
				for _, s := range named(spans, "fire") {
					got = append(got, s.Attrs["carillon.outcome"])
				}
				require.ElementsMatch(t, c.want, got)
				if len(c.want) == 0 {
					require.Empty(t, spans)
				}
			})
		})
	}
}

// TestLinesAboutAFireNameItsTrace checks the log lines about a skipped fire and about one whose
// deferral is not confirmed.
func TestLinesAboutAFireNameItsTrace(t *testing.T) {
	t.Parallel()
	for sampler, kept := range map[string]bool{"always_on": true, "always_off": false} {
		synctest.Test(t, func(t *testing.T) {
			tracer, _ := tracingtest.New(
				t, tracing.Keep{}, map[string]string{"OTEL_TRACES_SAMPLER": sampler},
			)
			parts := servicetest.New(t, servicetest.Options{})
			log := new(bytes.Buffer)
			stop := start(t, parts, "one", new(receiver), func(o *executor.Options) {
				o.Store = &lostDeferral{Store: parts.Store}
				o.Tracer = tracer
				o.Logger = zerolog.New(zerolog.SyncWriter(log))
			})
			skipped := servicetest.Once(time.Now().Add(time.Millisecond), "http://skipped")
			skipped.Misfire = timer.Misfire{
				Policy: timer.MisfireSkip, Grace: timer.Duration(time.Millisecond),
			}
			fires := parts.Create("a", append(soon(1, 2*time.Second), skipped)...)
			time.Sleep(100 * time.Millisecond)
			parts.Dispatch.Committed(t.Context(), fires)
			time.Sleep(400 * time.Millisecond) // executors know the pause within a second
			paused, err := parts.Store.SetStatus(t.Context(), []store.StatusChange{
				{App: "a", ID: fires[0].Timer, Status: timer.StatusPaused},
			}, parts.Planner.Plan)
			require.NoError(t, err)
			require.NoError(t, paused[0].Err)
			time.Sleep(2 * time.Second)
			stop()
			ids := make(map[string]timer.FireID)
			for i := range fires {
				ids[fires[i].String()] = fires[i].FireID
			}
			about := make(map[timer.FireID]bool)
			for text := range strings.Lines(log.String()) {
				var line map[string]any
				require.NoError(t, json.Unmarshal([]byte(text), &line))
				name, _ := line[logging.Fire].(string)
				fire, ok := ids[name]
				if !ok {
					continue
				}
				about[fire] = true
				want := any(nil)
				if kept {
					id := traceid.Of(fire)
					want = hex.EncodeToString(id[:])
				}
				require.Equal(t, want, line[logging.TraceID], text)
			}
			require.Len(t, about, len(fires), log)
		})
	}
}
