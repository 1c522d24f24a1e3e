package allinone_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestPagesMakeNoTimers checks that a web page that the user visits cannot create timers on this
// machine, through either version and with any headers. With keys it may call the API.
func TestPagesMakeNoTimers(t *testing.T) {
	t.Parallel()
	const (
		v1 = `{"app":"shop","name":"v1","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"http://127.0.0.1:1/","method":"POST"}}`
		v2 = `{"app":"shop","name":"v2","schedule":{"kind":"delay","delay":"1h"},"target":{"url":"http://127.0.0.1:1/"}}`
	)
	admin := apikey.New().Reveal()
	open, closed := devtest.Start(
		t,
		t.TempDir(),
	), devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer open.Stop(t)
	defer closed.Stop(t)
	send := func(d *devtest.Dev, method, path, body string, change func(*http.Request)) int {
		q, err := http.NewRequestWithContext(
			t.Context(),
			method,
			d.Api+path,
			strings.NewReader(body),
		)
		require.NoError(t, err)
		change(q)
		resp, err := devtest.Client.Do(q)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	page := func(q *http.Request) {
		q.Header.Set("Origin", "https://evil.example")
		q.Header.Set("Content-Type", "text/plain")
	}
	rebound := func(q *http.Request) { q.Host = "evil.example:8080" }
	for path, body := range map[string]string{"/api/timer/v1/def": v1, "/api/v2/timers": v2, allinone.EchoPath: "x"} {
		require.Equal(t, 403, send(open, http.MethodPost, path, body, page), path)
		require.Equal(t, 421, send(open, http.MethodPost, path, body, rebound), path)
	}
	require.Equal(t, 421, send(open, http.MethodGet, "/api/v2/timers?app=shop", "", rebound))
	code, body := open.Do(t, http.MethodGet, "/api/v2/timers?app=shop", "", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"items":[]`)
	code, _ = open.Do(t, http.MethodPost, "/api/v2/timers", "", v2)
	require.Equal(t, 201, code)
	require.Equal(
		t,
		201,
		send(closed, http.MethodPost, "/api/v2/timers", v2, func(q *http.Request) {
			page(q)
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Authorization", "Bearer "+admin)
		}),
	)
}
