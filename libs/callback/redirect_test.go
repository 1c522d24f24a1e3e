package callback_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

func countNew(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
}

func strictPolicy() *egress.Policy { return egress.NewPolicy(egress.Options{}) }

func rules(t testing.TB, texts ...string) *egress.Policy {
	t.Helper()
	rs, err := egress.ParseRules(texts)
	require.NoError(t, err)
	return egress.NewPolicy(egress.Options{Allow: rs})
}

// port returns the port of a server's URL.
func port(t testing.TB, url string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(
		strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://"),
	)
	require.NoError(t, err)
	return p
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	ring := newKeyring(t)
	accept := func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Carillon-Accepted", "async")
		w.WriteHeader(http.StatusAccepted)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/accepts" {
			accept(w, r)
			return
		}
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	to := func(path, location string, code int) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(code)
		})
	}
	to("/307", "/end", 307)
	to("/308", "end", 308)
	to("/302", "/end", 302)
	to("/303", "/end", 303)
	to("/loop", "/loop", 307)
	to("/two", "/307", 307)
	to("/other", other.URL+"/there", 307)
	to("/accepts", "/accept", 307)
	to("/other-accepts", other.URL+"/accepts", 307)
	mux.HandleFunc("/accept", accept)
	to("/metadata", "http://169.254.169.254/latest", 307)
	to("/loopback6", "http://[::1]:1/", 307)
	to("/ftp", "ftp://example.com/", 307)
	to("/bad", "http://%zz", 307)
	mux.HandleFunc(
		"/none",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTemporaryRedirect) },
	)
	mux.HandleFunc("/end", func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{NetOptions: callback.NetOptions{
		Secrets: ring,
		Egress:  rules(t, "127.0.0.1:"+port(t, server.URL), "127.0.0.1:"+port(t, other.URL)),
	}})
	call := func(path string, change func(r *callback.Request)) callback.Result {
		r := requestTo(server.URL + path)
		r.App, r.Token, r.Target.Async = "shop", "complete-me", timer.Duration(time.Hour)
		r.Target.Redirects, r.Target.Body = 3, "body"
		r.Target.Headers = map[string][]string{"Cookie": {"a=b"}, "X-Kept": {"1"}}
		r.Target.SecretHeaders = map[string]timer.Sealed{
			"X-Api-Key": ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
		}
		if change != nil {
			change(r)
		}
		got, body = nil, nil
		return c.Call(t.Context(), r)
	}
	for _, path := range []string{"/307", "/308", "/two"} {
		require.Equal(t, callback.Success, call(path, nil).Class, path)
		require.Equal(t, "POST", got.Method)
		require.Equal(t, "body", string(body))
		require.Equal(t, "hunter2", got.Header.Get("X-Api-Key"))
		require.Equal(t, "complete-me", got.Header.Get("Carillon-Complete-Token"))
		require.NotEmpty(t, got.Header.Get("Carillon-Fire-Id"))
	}
	require.Equal(
		t,
		callback.Success,
		call("/302", func(r *callback.Request) { r.Target.Method = "GET" }).Class,
	)
	require.Equal(t, "GET", got.Method)
	for path, want := range map[string]callback.Result{
		"/302": {StatusCode: 302, Error: "because it asks for a GET, and only 307 and 308 are " +
			"followed with POST: 302 Found to /end"},
		"/303":  {StatusCode: 303, Error: "because it asks for a GET"},
		"/loop": {StatusCode: 307, Error: "because there were more than 3 redirects: 307"},
		"/ftp":  {StatusCode: 307, Error: "because its Location is no URL: 307"},
		"/bad":  {StatusCode: 307, Error: "because its Location is no URL: 307"},
		"/none": {StatusCode: 307, Error: "because it has no Location: 307 Temporary Redirect"},
	} {
		res := call(path, nil)
		require.Equal(t, callback.Retry, res.Class, path)
		require.Equal(t, timer.FailureRedirect, res.Failure, path)
		require.Equal(t, want.StatusCode, res.StatusCode, "%s: the redirect is the answer", path)
		require.Contains(t, res.Error, want.Error)
		require.Nil(t, got)
		res = call(path, func(r *callback.Request) {
			r.Target.Success = &timer.Success{Statuses: timer.Statuses{{First: 302, Last: 307}}}
		})
		require.Equal(t, callback.Success, res.Class, "%s: the success rule judges it", path)
	}
	require.Contains(
		t,
		call("/two", func(r *callback.Request) { r.Target.Redirects = 1 }).Error,
		"more than 1 redirect",
	)
	require.Contains(
		t,
		call("/307", func(r *callback.Request) { r.Target.Redirects = 0 }).Error,
		"and those are not followed",
	)

	require.Equal(t, callback.Success, call("/other", nil).Class)
	require.Equal(t, "body", string(body))
	require.Empty(t, got.Header.Get("X-Api-Key"), "secrets go to nobody else")
	require.Empty(t, got.Header.Get("Cookie"))
	require.Empty(
		t,
		got.Header.Get("Carillon-Complete-Token"),
		"nor may anybody else complete the fire",
	)
	require.Equal(t, "1", got.Header.Get("X-Kept"))
	require.Equal(t, strings.TrimPrefix(other.URL, "http://"), got.Host)
	res := call("/accepts", nil)
	require.Equal(t, callback.Accepted, res.Class, "it got the token: %s", res.Error)
	res = call("/other-accepts", nil)
	require.Equal(t, callback.Retry, res.Class, "it cannot complete the fire")
	require.Equal(t, timer.FailureRedirect, res.Failure)
	require.EqualValues(t, http.StatusAccepted, res.StatusCode)
	require.Zero(t, res.CompleteWithin)
	require.Contains(t, res.Error, "set the target's url to that of the redirect, at "+got.Host)

	for _, path := range []string{"/metadata", "/loopback6"} {
		res := call(path, nil)
		require.Equal(t, callback.Reject, res.Class, path)
		require.Equal(t, timer.FailureRefused, res.Failure)
		require.Nil(t, got)
	}
}

func TestARedirectFromHTTPSToHTTPIsNotFollowed(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	plain := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }),
	)
	t.Cleanup(plain.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := requestTo(server.URL)
	r.Target.TLS, r.Target.Redirects = &timer.TLS{CA: caOf(server)}, 3
	got := c.Call(t.Context(), r)
	require.Equal(t, timer.FailureRedirect, got.Failure)
	require.Contains(t, got.Error, "https to http")
	require.Zero(t, calls.Load())
}
