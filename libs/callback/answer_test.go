package callback_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestSuccessRules(t *testing.T) {
	t.Parallel()
	statuses := func(s string) timer.Statuses {
		set, err := timer.ParseStatuses(s)
		require.NoError(t, err)
		return set
	}
	tests := []struct {
		name    string
		rule    timer.Success
		code    int
		body    string
		failure timer.Failure // empty: success
	}{
		{"another status", timer.Success{Statuses: statuses("404,500-510")}, 404, "", ""},
		{"its range", timer.Success{Statuses: statuses("404,500-510")}, 503, "", ""},
		{
			"200 is none of them",
			timer.Success{Statuses: statuses("404,500-510")},
			200,
			"",
			timer.FailureStatus,
		},
		{"a redirect that is wanted", timer.Success{Statuses: statuses("300-399")}, 302, "", ""},
		{"410 that is wanted", timer.Success{Statuses: statuses("410")}, 410, "", ""},
		{"a body", timer.Success{Body: `"ok":\s*true`}, 200, `{"ok": true}`, ""},
		{
			"another body",
			timer.Success{Body: `"ok":\s*true`},
			200,
			`{"ok": false}`,
			timer.FailureRule,
		},
		{
			"a body behind much else",
			timer.Success{Body: "here"},
			200,
			strings.Repeat("x", 60<<10) + "here",
			"",
		},
		{
			"a body behind too much",
			timer.Success{Body: "here"},
			200,
			strings.Repeat("x", 70<<10) + "here",
			timer.FailureRule,
		},
		{"no body", timer.Success{Body: "^$"}, 204, "", ""},
		{"the status comes first", timer.Success{Body: "ok"}, 500, "ok", timer.FailureStatus},
		{"both", timer.Success{Statuses: statuses("500"), Body: "ok"}, 500, "ok", ""},
		{
			"a rule that takes for ever",
			timer.Success{Body: strings.Repeat("(?:x?){1000}", 42)},
			200,
			"x",
			timer.FailureInvalid,
		},
		{"a rule that is none", timer.Success{Body: "("}, 200, "(", timer.FailureInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, r := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			})
			r.Target.Success = &tt.rule
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.failure, got.Failure, got.Error)
			require.Equal(t, tt.failure == "", got.Class == callback.Success)
			require.False(t, got.Pause)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	tests := []struct {
		code   int
		header string
		want   time.Duration
	}{
		{429, "7", 7 * time.Second},
		{503, "7", 7 * time.Second},
		{503, "0", 0},
		{503, "", 0},
		{500, "7", 0},
		{429, "-1", 0},
		{429, "soon", 0},
		{429, "1.5", 0},
		{429, "86401", timer.MaxRetryAfter},
		{429, "99999999999999999999999", timer.MaxRetryAfter},
		{429, date(time.Hour), time.Hour},
		{429, date(-time.Hour), 0},
		{429, date(48 * time.Hour), timer.MaxRetryAfter},
	}
	for _, tt := range tests {
		t.Run(tt.header, func(t *testing.T) {
			t.Parallel()
			c, r := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.code)
			})
			got := c.Call(t.Context(), r)
			require.Equal(t, callback.Retry, got.Class)
			require.InDelta(
				t,
				tt.want,
				got.RetryAfter,
				float64(time.Minute)*float64(min(1, len(tt.header)/20)),
			)
		})
	}
}

func TestGonePausesTheTimer(t *testing.T) {
	t.Parallel()
	c, r := setup(
		t,
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
	)
	got := c.Call(t.Context(), r)
	require.Equal(t, callback.Result{
		Class:      callback.Reject,
		StatusCode: 410,
		Error:      "answered 410 Gone",
		Failure:    timer.FailureStatus,
		Pause:      true,
	}, got)
}

func TestAsynchronousAcceptance(t *testing.T) {
	t.Parallel()
	hour := timer.Duration(time.Hour)
	tests := []struct {
		name    string
		async   timer.Duration
		token   string
		code    int
		headers map[string]string
		class   callback.Class
		within  time.Duration
	}{
		{
			"accepted",
			hour,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "async"},
			callback.Accepted,
			time.Hour,
		},
		{
			"sooner",
			hour,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "Async", "Carillon-Complete-Within": "10m"},
			callback.Accepted,
			10 * time.Minute,
		},
		{
			"later than allowed",
			hour,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "async", "Carillon-Complete-Within": "10h"},
			callback.Accepted,
			time.Hour,
		},
		{
			"a time that is none",
			hour,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "async", "Carillon-Complete-Within": "-3"},
			callback.Accepted,
			time.Hour,
		},
		{
			"a number without a unit",
			hour,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "async", "Carillon-Complete-Within": "10"},
			callback.Accepted,
			time.Hour,
		},
		{"without the header", hour, "t", 202, nil, callback.Success, 0},
		{
			"with another status",
			hour,
			"t",
			200,
			map[string]string{"Carillon-Accepted": "async"},
			callback.Success,
			0,
		},
		{
			"of a timer that does not offer it",
			0,
			"t",
			202,
			map[string]string{"Carillon-Accepted": "async"},
			callback.Success,
			0,
		},
		{
			"without a token",
			hour,
			"",
			202,
			map[string]string{"Carillon-Accepted": "async"},
			callback.Success,
			0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var token string
			c, r := setup(t, func(w http.ResponseWriter, req *http.Request) {
				token = req.Header.Get("Carillon-Complete-Token")
				for k, v := range tt.headers {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.code)
			})
			r.Target.Async, r.Token = tt.async, tt.token
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.class, got.Class)
			require.Equal(t, tt.within, got.CompleteWithin)
			if text := tt.headers["Carillon-Complete-Within"]; text == "-3" || text == "10" {
				require.Contains(t, got.Error, `"`+text+`"; the target's async of 1h0m0s applies`)
			} else {
				require.Empty(t, got.Error)
			}
			require.Equal(t, tt.async > 0 && tt.token != "", token != "")
		})
	}
}

func TestAnAcceptanceComesBeforeTheSuccessRules(t *testing.T) {
	t.Parallel()
	statuses, err := timer.ParseStatuses("200")
	require.NoError(t, err)
	for _, rule := range []timer.Success{{Statuses: statuses}, {Body: "done"}, {Statuses: statuses, Body: "done"}} {
		c, r := setup(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Carillon-Accepted", "async")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "queued")
		})
		r.Target.Async, r.Token, r.Target.Success = timer.Duration(time.Hour), "t", &rule
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Accepted, got.Class, got.Error)
		require.Equal(t, time.Hour, got.CompleteWithin)
		require.Equal(t, "queued", got.Excerpt)
		r.Target.Async = 0
		require.Equal(
			t,
			callback.Retry,
			c.Call(t.Context(), r).Class,
			"of a target that does not offer it the rules decide",
		)
	}
}

// raw serves raw connections, for answers that no HTTP server sends.
func raw(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = http.ReadRequest(bufio.NewReader(c))
				serve(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestBadReceiversAreRecordedAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		serve   func(c net.Conn)
		failure timer.Failure
	}{
		{"headers without end", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(
					c,
					"X-More: "+strings.Repeat("x", 4000)+"\r\n",
				); err != nil {
					return
				}
			}
		}, timer.FailureTooLarge},
		{"one header without end", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", 4000)); err != nil {
					return
				}
			}
		}, timer.FailureTooLarge},
		{"continues without end", func(c net.Conn) {
			for {
				if _, err := io.WriteString(
					c,
					"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
				); err != nil {
					return
				}
			}
		}, timer.FailureTooLarge},
		{"a reset", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, timer.FailureReset},
		{"a close", func(net.Conn) {}, timer.FailureReset},
		{
			"half a head",
			func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: b") },
			timer.FailureReset,
		},
		{
			"no HTTP",
			func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n\r\n") },
			timer.FailureProtocol,
		},
		{
			"a status that is none",
			func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 abc OK\r\n\r\n") },
			timer.FailureProtocol,
		},
		{"an answer after the timeout", func(c net.Conn) {
			_, _ = io.Copy(io.Discard, c) // until the caller disconnects
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}, timer.FailureTimeout},
		{"a head that drips", func(c net.Conn) {
			for _, b := range []byte("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("b", 500)) {
				time.Sleep(20 * time.Millisecond)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}, timer.FailureTimeout},
		{"a body that drips", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for {
				time.Sleep(20 * time.Millisecond)
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}, timer.FailureNone},
		{"a body that breaks off", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun")
			_ = c.(*net.TCPConn).SetLinger(0)
		}, timer.FailureNone},
		{"a switch of protocols", func(c net.Conn) {
			_, _ = io.WriteString(
				c,
				"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
			)
			_, _ = io.Copy(io.Discard, c)
		}, timer.FailureStatus},
	}
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := requestTo(raw(t, tt.serve))
			switch tt.failure { //nolint:exhaustive // the others have the time of any request
			case timer.FailureTimeout:
				r.Timeout = 500 * time.Millisecond
			// Some of these bodies never end. The time is enough for the header on a busy machine.
			case timer.FailureNone:
				r.Timeout = 5 * time.Second
			}
			began := time.Now()
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.failure, got.Failure, "%+v", got)
			require.Less(t, time.Since(began), time.Minute)
			if tt.failure == "" {
				require.Equal(t, callback.Success, got.Class)
				return
			}
			require.Equal(t, callback.Retry, got.Class)
			require.NotEmpty(t, got.Error)
			require.Less(t, len(got.Error), timer.MaxExcerpt)
		})
	}
}

func TestFailuresOfTheWayThere(t *testing.T) {
	t.Parallel()
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	plain := raw(
		t,
		func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") },
	)
	for url, want := range map[string]timer.Failure{
		"http://no-such-host.invalid/": timer.FailureDNS,
		closed:                         timer.FailureConnect,
		strings.Replace(plain, "http://", "https://", 1): timer.FailureTLS,
	} {
		r := requestTo(url)
		r.Timeout = 5 * time.Second
		got := c.Call(t.Context(), r)
		require.Equal(t, want, got.Failure, "%s: %s", url, got.Error)
		require.Equal(t, callback.Retry, got.Class)
		require.True(t, callback.EndpointFailed(&got))
	}
	require.False(t, callback.EndpointFailed(&callback.Result{}))
	require.False(
		t,
		callback.EndpointFailed(
			&callback.Result{Class: callback.Retry, Failure: timer.FailureStatus, StatusCode: 500},
		),
	)
	require.True(
		t,
		callback.EndpointFailed(
			&callback.Result{Class: callback.Retry, Failure: timer.FailureStatus, StatusCode: 503},
		),
	)
	require.False(
		t,
		callback.EndpointFailed(
			&callback.Result{Class: callback.Reject, Failure: timer.FailureRefused},
		),
	)
	for _, code := range []int32{4, 14} { // gRPC codes
		require.True(
			t,
			callback.EndpointFailed(
				&callback.Result{
					Class:      callback.Retry,
					Failure:    timer.FailureStatus,
					StatusCode: code,
				},
			),
		)
	}
	for _, f := range []timer.Failure{timer.FailureCanceled, timer.FailureAuth, timer.FailureRefused, timer.FailureInvalid} {
		require.False(t, callback.ConcernsEndpoint(&callback.Result{Failure: f}), f)
	}
	for _, f := range []timer.Failure{timer.FailureNone, timer.FailureStatus, timer.FailureRule, timer.FailureTimeout, timer.FailureConnect} {
		require.True(t, callback.ConcernsEndpoint(&callback.Result{Failure: f}), f)
	}
}
