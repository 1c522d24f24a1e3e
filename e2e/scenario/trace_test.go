package scenario

import (
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// The trace of the caller that creates timers.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// TestTracesReachACollector checks the traces of a delivered, a retried and a skipped fire, as a
// real collector receives them.
func TestTracesReachACollector(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"allinone", "real"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCollector(t)
			runOnOwn(t, runnerNamed(name), cluster.Options{Env: map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.endpoint,
				"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
				"OTEL_BSP_SCHEDULE_DELAY":     "200",
				"OTEL_RESOURCE_ATTRIBUTES":    "deployment.environment.name=test",
			}}, func(t *testing.T, env *environment) { tracesOf(t, env, c) })
		})
	}
}

func tracesOf(t *testing.T, env *environment, c *collector) {
	t.Helper()
	at := soon(4 * time.Second)
	env.rcv.Script("/traced", receiver.Script{Keep: true})
	env.rcv.Script("/flaky", receiver.Script{Statuses: []int{500, 200}, Keep: true})
	env.rcv.Script("/slow", receiver.Script{Delay: 4 * time.Second, Keep: true})
	delivered := env.createTraced(t, "delivered", "/traced", client.At(at), nil)
	retried := env.createTraced(t, "retried", "/flaky", client.At(at), nil)
	skipping := env.createTraced(t, "skipping", "/slow",
		client.Cron("* * * * * *"),
		&client.Concurrency{Policy: "skip"})

	const post = "POST /api/v2/timers"
	api := c.await(t, callersTrace, 3, post)[post] // one for each timer
	requests := make(map[string]bool)
	for i := range api {
		require.Equal(t, callersSpan, api[i].ParentSpanID)
		require.Equal(t, "201", api[i].attr("http.response.status_code"))
		requests[api[i].SpanID] = true
	}

	fire := timer.FireID{Timer: delivered, DueMS: at.UnixMilli()}
	env.waitFor(t, fire, func(f *client.Fire) bool { return f.Status == "delivered" })
	trace, attempt := traceOf(t, env.rcv.Requests("/traced")[0].Header.Get("Traceparent"))
	spans := c.await(t, trace, 1, "fire", "record")
	root := env.requireRoot(t, spans, requests, "delivered", fire)
	require.Equal(t, "delivered", root.attr("carillon.outcome"))
	require.Len(t, spans["attempt"], 1)
	require.Equal(t, attempt, spans["attempt"][0].SpanID)
	require.Equal(t, "200", spans["attempt"][0].attr("http.response.status_code"))

	fire.Timer = retried
	env.waitFor(t, fire, func(f *client.Fire) bool { return f.Status == "delivered" })
	calls := env.rcv.Requests("/flaky")
	trace, attempt = traceOf(t, calls[0].Header.Get("Traceparent"))
	again, second := traceOf(t, calls[1].Header.Get("Traceparent"))
	require.Equal(t, trace, again, "one trace for all attempts")
	spans = c.await(t, trace, 1, "fire", "record")
	root = env.requireRoot(t, spans, requests, "retried", fire)
	require.Equal(t, "2", root.attr("carillon.attempts"))
	require.Len(t, spans["attempt"], 2)
	for i, id := range []string{attempt, second} {
		require.Equal(t, id, spans["attempt"][i].SpanID)
	}
	require.Equal(t, 2, spans["attempt"][0].Status.Code, "error")
	require.Equal(t, "500", spans["attempt"][0].attr("http.response.status_code"))

	env.requireSkipped(t, c, skipping, requests)
	env.requireExemplars(t)
}

// requireExemplars checks that Prometheus gets the traces of measured callbacks.
func (env *environment) requireExemplars(t *testing.T) {
	t.Helper()
	var all strings.Builder
	for _, p := range env.Role(cluster.Executor) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Admin()+"/metrics", nil)
		require.NoError(t, err)
		q.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		_, err = io.Copy(&all, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	for _, name := range []string{"carillon_lateness_seconds", "carillon_callback_seconds"} {
		require.Regexp(
			t,
			name+`_bucket\{le="[^"]+"\} \d+ # \{trace_id="[0-9a-f]{32}"\}`,
			all.String(),
		)
	}
	require.Regexp(t, `carillon_trace_spans_total\{result="exported"\} [1-9]`, all.String())
	require.Contains(t, all.String(), `carillon_trace_spans_total{result="dropped"} 0`)
}

// requireSkipped checks the trace of a fire that was skipped for the one before.
func (env *environment) requireSkipped(
	t *testing.T,
	c *collector,
	id timer.ID,
	requests map[string]bool,
) {
	t.Helper()
	var skipped timer.FireID
	require.Eventually(t, func() bool {
		fires, err := env.api.History(t.Context(), env.app, id)
		require.NoError(t, err)
		for i := range fires {
			if fires[i].Reason == "overlap" {
				skipped, err = timer.ParseFireID(fires[i].ID)
				require.NoError(t, err)
				return true
			}
		}
		return false
	}, patience, 100*time.Millisecond)
	trace := traceid.Of(skipped)
	spans := c.await(t, hex.EncodeToString(trace[:]), 1, "fire", "record")
	root := env.requireRoot(t, spans, requests, "skipping", skipped)
	require.Equal(t, "skipped", root.attr("carillon.outcome"))
	require.Equal(t, "overlap", root.attr("carillon.reason"))
	require.Empty(t, spans["attempt"])
}

// createTraced creates an active timer by a request of a traced caller.
func (env *environment) createTraced(
	t *testing.T,
	name, path string,
	s client.Schedule,
	c *client.Concurrency,
) timer.ID {
	t.Helper()
	var made client.Timer
	_, err := env.api.Do(
		t.Context(), http.MethodPost, "/api/v2/timers",
		http.Header{"Traceparent": {"00-" + callersTrace + "-" + callersSpan + "-01"}},
		client.NewTimer{
			App: env.app, Name: name, Schedule: s, Target: client.Post(env.rcv.URL(path)),
			Concurrency: c, Status: "active",
		},
		&made,
	)
	require.NoError(t, err)
	return made.TimerID()
}

// requireRoot checks what holds for the trace of every fire, and returns its root span.
func (env *environment) requireRoot(
	t *testing.T,
	spans map[string][]span,
	requests map[string]bool,
	name string,
	fire timer.FireID,
) *span {
	t.Helper()
	require.Len(t, spans["fire"], 1)
	root := &spans["fire"][0]
	require.Empty(t, root.ParentSpanID)
	require.Equal(t, env.app, root.attr("carillon.app"))
	require.Equal(t, name, root.attr("carillon.timer.name"))
	require.Equal(t, fire.String(), root.attr("carillon.fire.id"))
	require.Equal(t, callersTrace, root.Links[0].TraceID, "the request that made the timer")
	require.Contains(t, requests, root.Links[0].SpanID)
	for _, of := range []string{"claim", "wait", "record"} {
		require.NotEmpty(t, spans[of], of)
	}
	for of, all := range spans {
		for i := range all {
			s := &all[i]
			require.Contains(t, []string{"carillon-executor", "carillon-dev"}, s.service)
			if of == "fire" {
				continue
			}
			require.Equal(t, root.SpanID, s.ParentSpanID, of)
			require.GreaterOrEqual(t, s.StartNS, root.StartNS, of)
			require.LessOrEqual(t, s.EndNS, root.EndNS, of)
		}
	}
	return root
}
