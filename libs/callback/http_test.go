package callback_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup starts a receiver. It returns a caller that may call it, and a request to it.
func setup(t *testing.T, h http.HandlerFunc) (*callback.HTTP, *callback.Request) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return newCaller(t, callback.HTTPOptions{AllowPrivate: true}), requestTo(server.URL)
}

func newCaller(t *testing.T, o callback.HTTPOptions) *callback.HTTP {
	t.Helper()
	c, err := callback.NewHTTP(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func requestTo(url string) *callback.Request {
	return &callback.Request{
		Fire: timer.FireID{
			Timer: 42,
			DueMS: 1_767_225_600_123,
		},
		App:       "shop",
		PlannedMS: 1_767_225_600_123,
		Attempt:   2,
		Start:     time.UnixMilli(1_767_225_600_456),
		Target:    timer.Target{Kind: timer.KindHTTP, URL: url, Method: "POST"},
		Timeout:   10 * time.Second,
	}
}

func TestTheConfiguredRequestIsSentWithOurHeaders(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var gotBody []byte
	c, r := setup(t, func(_ http.ResponseWriter, req *http.Request) {
		got = req
		gotBody, _ = io.ReadAll(req.Body)
	})
	r.Target.Method = "PUT"
	r.Target.URL = strings.Replace(
		r.Target.URL,
		"http://",
		"http://me:secret@",
		1,
	) + "/a%2Fb?x=1&y=ä&z=a b%2F\"{|}[]"
	r.Target.Body = "{\"a\": \"ß\n\"}"
	r.Target.Headers = map[string][]string{
		"x-many": {
			"1",
			"2",
		},
		"Host":             {"shop.example"},
		"Content-Type":     {"application/json"},
		"carillon-attempt": {"99"},
		"X-None":           {},
	}
	require.Equal(t, callback.Result{StatusCode: 200}, c.Call(t.Context(), r))

	require.Equal(t, "PUT", got.Method)
	require.Equal(t, "/a%2Fb", got.URL.EscapedPath())
	require.Equal(t, "x=1&y=%C3%A4&z=a%20b%2F%22%7B%7C%7D[]", got.URL.RawQuery)
	require.Equal(t, "shop.example", got.Host)
	require.Equal(t, r.Target.Body, string(gotBody))
	require.Equal(t, int64(len(r.Target.Body)), got.ContentLength)
	user, password, _ := got.BasicAuth()
	require.Equal(t, "me:secret", user+":"+password)
	got.Header.Del("Authorization")
	traceParent := got.Header.Get("Traceparent")
	require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", traceParent)
	require.Equal(t, http.Header{
		"X-Many": {
			"1",
			"2",
		},
		"Content-Type":   {"application/json"},
		"Content-Length": {got.Header.Get("Content-Length")},
		"User-Agent":     {"Carillon/1"},
		"Carillon-Timer-Id": {
			"42",
		},
		"Carillon-Fire-Id": {"42-1767225600123"},
		"Idempotency-Key":  {"42-1767225600123"},
		"Carillon-Cause":   {"schedule"},
		"Traceparent":      {traceParent},
		"Carillon-Due": {
			"2026-01-01T00:00:00.123Z",
		},
		"Carillon-Start":   {"2026-01-01T00:00:00.456Z"},
		"Carillon-Attempt": {"2"},
	}, got.Header)
}

func TestTheMethodIsPostUnlessToldAndTheUserAgentCanBeSet(t *testing.T) {
	t.Parallel()
	var got *http.Request
	c, r := setup(t, func(_ http.ResponseWriter, req *http.Request) { got = req })
	r.Target.Method = ""
	r.Target.Headers = map[string][]string{"user-agent": {"mine"}}
	r.Fire.Series = 7
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.Equal(t, "POST", got.Method)
	require.Equal(t, "mine", got.UserAgent())
	require.Equal(t, "42-1767225600123-7", got.Header.Get("Carillon-Fire-Id"))
	require.Zero(t, got.ContentLength)
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		r.Target.Method, r.Target.Body = method, "x"
		require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
		require.Equal(t, method, got.Method)
		require.EqualValues(t, 1, got.ContentLength)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		code    int
		body    string
		class   callback.Class
		err     string
		failure timer.Failure
	}{
		{"200", 200, "fine", callback.Success, "", ""},
		{"204", 204, "", callback.Success, "", ""},
		{"299", 299, "odd", callback.Success, "", ""},
		{
			"302",
			302,
			"",
			callback.Retry,
			"answered with a redirect, and those are not followed: 302 Found to /elsewhere",
			timer.FailureRedirect,
		},
		{
			"304",
			304,
			"",
			callback.Retry,
			"answered 304 Not Modified",
			timer.FailureStatus,
		},
		{"300", 300, "", callback.Retry, "answered 300 Multiple Choices", timer.FailureStatus},
		{"305", 305, "", callback.Retry, "answered 305 Use Proxy", timer.FailureStatus},
		{"306", 306, "", callback.Retry, "answered 306", timer.FailureStatus},
		{
			"308",
			308,
			"",
			callback.Retry,
			"answered with a redirect, and those are not followed: 308 Permanent Redirect to /elsewhere",
			timer.FailureRedirect,
		},
		{"404", 404, "no such hook", callback.Retry, "answered 404 Not Found", timer.FailureStatus},
		{
			"500",
			500,
			"oops",
			callback.Retry,
			"answered 500 Internal Server Error",
			timer.FailureStatus,
		},
		{"799", 799, "", callback.Retry, "answered 799", timer.FailureStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			c, r := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			})
			require.Equal(t, callback.Result{
				Class:      tt.class,
				StatusCode: int32(tt.code),
				Error:      tt.err,
				Excerpt:    tt.body,
				Failure:    tt.failure,
			}, c.Call(t.Context(), r))
			require.EqualValues(t, 1, calls.Load())
		})
	}
}

func TestExcerptsAreShortAndValid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100_000)
	bodies := map[string]struct{ body, want string }{
		"exact": {
			strings.Repeat("x", timer.MaxExcerpt),
			strings.Repeat("x", timer.MaxExcerpt),
		},
		"long":            {long, long[:timer.MaxExcerpt]},
		"cut in a letter": {"x" + long, "x" + long[:timer.MaxExcerpt-2]},
		"not UTF-8":       {"a\xff\xfeb", "a\uFFFDb"},
		"all not UTF-8":   {strings.Repeat("\xffa", 1000), strings.Repeat("\uFFFDa", 128)},
	}
	for name, tt := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := setup(
				t,
				func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) },
			)
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.want, got.Excerpt)
			require.Equal(t, callback.Success, got.Class)
		})
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10_000, 60_000} {
		var opened atomic.Int32
		server := httptest.NewUnstartedServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, size))
			}),
		)
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
		for range 10 {
			require.Equal(t, callback.Success, c.Call(t.Context(), requestTo(server.URL)).Class)
		}
		require.EqualValues(t, 1, opened.Load(), "answers of %d bytes", size)
	}
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	c, r := setup(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 4<<10)); err != nil {
				return
			}
		}
	})
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	c, r := setup(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/begins" {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-req.Context().Done()
	})
	base := r.Target.URL
	r.Timeout = 50 * time.Millisecond
	require.Equal(
		t,
		callback.Result{
			Class:   callback.Retry,
			Error:   "no answer within 50ms",
			Failure: timer.FailureTimeout,
		},
		c.Call(t.Context(), r),
	)

	// Long enough for a busy host to send the status.
	r.Target.URL, r.Timeout = base+"/begins", 5*time.Second
	require.Equal(
		t,
		callback.Result{StatusCode: 200, Excerpt: "begun"},
		c.Call(t.Context(), r),
		"the status came, and it counts",
	)
	r.Timeout, r.Target.Success = 500*time.Millisecond, &timer.Success{Body: "end"}
	require.Equal(
		t,
		callback.Result{
			Class:      callback.Retry,
			StatusCode: 200,
			Excerpt:    "begun",
			Error: "answered 200 OK, but the body, which the success rule needs, did not end " +
				"within 500ms",
			Failure: timer.FailureTimeout,
		},
		c.Call(t.Context(), r),
	)
	r.Target.Success = nil

	r.Target.URL, r.Timeout = base, time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Equal(
		t,
		callback.Result{
			Class:   callback.Retry,
			Error:   "the call was cancelled",
			Failure: timer.FailureCanceled,
		},
		c.Call(ctx, r),
	)
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	got := c.Call(t.Context(), requestTo("http://"+addr))
	require.Equal(t, callback.Retry, got.Class)
	require.Zero(t, got.StatusCode)
	require.Contains(t, got.Error, "refused")
}

// TestNameServerThatHangs checks that the limit of connecting ends it, and that the attempt says
// so.
func TestNameServerThatHangs(t *testing.T) {
	t.Parallel()
	o := callback.NetOptions{Dial: egress.DialerOptions{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}}}
	const limit = 20 * time.Millisecond
	for _, tt := range []struct {
		caller callback.Caller
		r      *callback.Request
	}{
		{
			newCaller(t, callback.HTTPOptions{NetOptions: o, DialTimeout: limit}),
			requestTo("http://slow.example."),
		},
		{
			newCaller(t, callback.HTTPOptions{NetOptions: o, DialTimeout: limit}),
			requestTo("https://slow.example."),
		},
		{
			newGRPC(t, callback.GRPCOptions{NetOptions: o, DialTimeout: limit}),
			grpcRequest("grpc://slow.example.:80"),
		},
	} {
		tt.r.Timeout = time.Minute
		got := tt.caller.Call(t.Context(), tt.r)
		require.Equal(t, timer.FailureDNS, got.Failure, got.Error)
		require.NotContains(t, got.Error, "no answer", tt.r.Target.URL)
	}
}

func TestWhatCanNeverWorkIsRejected(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	_, r := setup(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	guarded := newCaller(t, callback.HTTPOptions{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.Target.URL, "http://"))
	require.NoError(t, err)
	urls := map[string]string{
		"loopback":           r.Target.URL,
		"a name of loopback": "http://localhost:" + port,
		"mapped":             "http://[::ffff:127.0.0.1]:" + port,
		"loopback, port 80":  "http://127.0.0.1/",
		"private":            "http://10.0.0.1/",
		"link local":         "http://169.254.169.254/latest/meta-data",
		"IPv6 loopback":      "http://[::1]/",
		"another port":       "http://198.51.100.1:22/",
		"not a URL":          "http://%zz/",
		"another scheme":     "ftp://example.com",
		"no host":            "http:///x",
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := guarded.Call(t.Context(), requestTo(url))
			require.Equal(t, callback.Reject, got.Class, got.Error)
			require.NotEmpty(t, got.Error)
			require.Contains(
				t,
				[]timer.Failure{timer.FailureRefused, timer.FailureInvalid},
				got.Failure,
			)
			require.NotContains(t, got.Error, "\n")
		})
	}
	t.Cleanup(func() { require.Zero(t, calls.Load()) })
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	var proto string
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto }),
	)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	got := c.Call(t.Context(), requestTo(server.URL))
	require.Equal(t, callback.Retry, got.Class, "nobody vouches for its certificate")
	require.Contains(t, got.Error, "certificate")

	c = newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	callback.Trust(
		c,
		&tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
	)
	require.Equal(t, callback.Success, c.Call(t.Context(), requestTo(server.URL)).Class)
	require.Equal(t, "HTTP/2.0", proto)
}

// TestAKeptConnectionThatWasClosedIsReplaced checks that a kept connection closed by the server
// does not cost an attempt.
func TestAKeptConnectionThatWasClosedIsReplaced(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(
		http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		),
	)
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := requestTo(server.URL)
	r.Target.Body = "again"
	for range 20 {
		require.Equal(t, callback.Result{StatusCode: 200}, c.Call(t.Context(), r))
		server.CloseClientConnections()
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := callback.NewHTTP(callback.HTTPOptions{MaxIdleConns: -1})
	require.ErrorContains(t, err, "negative")
}

func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	c, err := callback.NewHTTP(callback.HTTPOptions{AllowPrivate: true})
	require.NoError(b, err)
	defer c.Close()
	r := requestTo(server.URL + "/hook")
	r.Target.Body = `{"hello": "world"}`
	r.Target.Headers = map[string][]string{"Content-Type": {"application/json"}}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got := c.Call(b.Context(), r); got.Class != callback.Success {
				b.Fatal(got.Error)
			}
		}
	})
}
