package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/bench"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestBench(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CALLBACK_ALLOW", "127.0.0.1:*")
	defer d.Stop(t)
	u := newUser(t, d.Api)
	require.Equal(t, "shop", u.env["CARILLON_APP"], "an app that must not be loaded")

	text := u.do("bench", "rate:50:2s", "--batch", "1", "--settle", "60s")
	require.Contains(t, text, "bare calls")
	require.Contains(t, text, "fires      100 due, 0 missing, 0 early, 0 repeated")
	require.Contains(t, text, "█", "a bar")

	// A receiver as it would run on another machine.
	r, err := bench.StartReceiver(t.Context(), "127.0.0.1:0", "")
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var report struct {
		Phases []bench.Result `json:"phases"`
	}
	out := u.do(
		"bench",
		"burst:30",
		"cron:3:2s",
		"long:20",
		"--receiver",
		strings.TrimSuffix(r.URL(), "/call"),
		"--no-ceiling",
		"--settle",
		"60s",
		"-o",
		"json",
	)
	out = out[strings.IndexByte(out, '{'):] // after the progress
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Phases, 3)
	require.Equal(t, 30, report.Phases[0].Groups[0].Received)
	require.Equal(t, 6, report.Phases[1].Groups[0].Received)
	require.Equal(t, 20, report.Phases[2].Timers)
	for _, p := range report.Phases {
		require.True(t, p.OK(), "%+v", p)
		require.Positive(t, p.CreateRate)
		require.Empty(t, p.CleanUpFail)
	}
	require.NotContains(t, u.do("timer", "list", "--app", "bench"), "bench-", "they are deleted")
	u.do("bench", "long:2", "--no-ceiling", "--keep")
	require.Contains(t, u.do("timer", "list", "--app", "bench"), "bench-")
	require.NotContains(t, u.do("timer", "list"), "bench-")

	// An API that refuses to delete.
	to, err := url.Parse(d.Api)
	require.NoError(t, err)
	next := httputil.NewSingleHostReverseProxy(to)
	next.Transport = devtest.Client.Transport
	keeps := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete && strings.HasPrefix(q.URL.Path, "/api/v2/timers/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, q)
	}))
	defer keeps.Close()
	u.env["CARILLON_API"] = keeps.URL
	require.Contains(
		t,
		u.refused("bench", "long:2", "--no-ceiling"),
		"--app bench --name-prefix bench-",
	)

	require.Contains(t, u.refused("bench", "wave:1"), "rate:N:DURATION")
	require.Contains(t, u.refused("bench", "burst:1", "--batch", "0"), "--batch")
	require.Contains(t, u.refused("bench", "burst:1", "--url", "x"), "--url: expected http://")
	require.Contains(
		t, u.refused("bench", "burst:1", "--no-ceiling", "--receiver", d.Api), "bench receive")
}
