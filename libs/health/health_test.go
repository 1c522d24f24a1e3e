package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/health"
)

func get(t *testing.T, h *health.Health, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler(prometheus.NewRegistry()).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w.Code, w.Body.String()
}

func TestReady(t *testing.T) {
	t.Parallel()
	h := health.New(0)
	code, _ := get(t, h, "/readyz")
	require.Equal(t, 200, code)

	h.SetError("mysql", errors.New("connection refused"))
	h.Set("redis", func(context.Context) error { return nil })
	h.Set("bad", func(context.Context) error { panic("oops") })
	code, body := get(t, h, "/readyz")
	require.Equal(t, 503, code)
	var got struct {
		Status string
		Checks []health.Result
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, "not ready", got.Status)
	require.Equal(t, []health.Result{
		{
			Name:  "mysql",
			Error: "connection refused",
		},
		{Name: "redis", OK: true},
		{Name: "bad", Error: "the check panicked: oops"},
	}, got.Checks)

	code, _ = get(t, h, "/livez")
	require.Equal(t, 200, code, "not ready, but alive")

	h.SetError("mysql", nil)
	h.SetError("bad", nil)
	h.SetOptional("redis", func(context.Context) error { return errors.New("away") })
	code, body = get(t, h, "/readyz")
	require.Equal(t, 200, code)
	require.Contains(t, body, `{"name":"redis","ok":false,"optional":true,"error":"away"}`)
	h.SetDetail("redis", func() any { return map[string]int{"age_ms": 7} })
	h.SetDetail("mysql", func() any { panic("oops") })
	_, body = get(t, h, "/readyz")
	require.Contains(
		t,
		body,
		`{"name":"redis","ok":false,"optional":true,"error":"away","detail":{"age_ms":7}}`,
	)
	require.Contains(t, body, `{"name":"mysql","ok":true}`, "a detail that is broken is left out")
	code, _ = get(t, h, "/metrics")
	require.Equal(t, 200, code)
}

func TestSlowCheckFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(time.Second)
		h.Set("stuck", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute) // and ignores its context
			return nil
		})
		h.SetError("fine", nil)
		start := time.Now()
		results, ok := h.Run(t.Context())
		require.False(t, ok)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(
			t,
			[]health.Result{{Name: "stuck", Error: "no answer in time"}, {Name: "fine", OK: true}},
			results,
		)
		time.Sleep(2 * time.Minute)
	})
}

// TestSlowCheckKeepsItsCause: what a check said before it hung, or says when its time is up.
func TestSlowCheckKeepsItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(time.Second)
		refused := errors.New("connection refused")
		hang := make(chan struct{})
		stuck := false
		h.Set("stuck", func(context.Context) error {
			if stuck {
				<-hang
			}
			return refused
		})
		h.Set("waiting", func(ctx context.Context) error {
			<-ctx.Done()
			return refused
		})
		results, _ := h.Run(t.Context())
		require.Equal(t, "connection refused", results[0].Error)
		require.Equal(t, "connection refused", results[1].Error)
		stuck = true
		results, _ = h.Run(t.Context())
		require.Equal(
			t,
			"no answer in time; the last error was: connection refused",
			results[0].Error,
		)
		close(hang)
	})
}

func TestReadyIsAMetric(t *testing.T) {
	t.Parallel()
	h := health.New(0)
	r := prometheus.NewRegistry()
	h.Register(r)
	value := func() float64 {
		t.Helper()
		families, err := r.Gather()
		require.NoError(t, err)
		require.Equal(t, "carillon_ready", families[0].GetName())
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	require.Positive(t, value())
	h.SetOptional("redis", func(context.Context) error { return errors.New("refused") })
	require.Positive(t, value())
	h.SetError("mysql", errors.New("refused"))
	require.Zero(t, value())
}
