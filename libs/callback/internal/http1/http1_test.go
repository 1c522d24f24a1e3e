package http1_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/callback/internal/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options() http1.Options {
	var d net.Dialer
	return http1.Options{
		Dial:           d.DialContext,
		IdleTimeout:    time.Minute,
		MaxIdle:        100,
		MaxIdlePerHost: 50,
		MaxHeaderBytes: 8 << 10,
	}
}

func newTransport(t *testing.T, o http1.Options) *http1.Transport {
	t.Helper()
	tr := http1.New(o)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// server runs a function for each connection, and counts them.
type server struct {
	url         string
	connections atomic.Int32
}

func serve(t *testing.T, each func(c net.Conn, r *bufio.Reader, n int32)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{url: "http://" + l.Addr().String() + "/hook"}
	var running sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := s.connections.Add(1)
			running.Go(func() {
				defer func() { _ = c.Close() }()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				each(c, bufio.NewReader(c), n)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); end(); running.Wait() })
	return s
}

// read reads one request with its body, and returns the body.
func read(r *bufio.Reader) (*http.Request, string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(req.Body)
	return req, string(b), err
}

// answering answers every request of a connection alike.
func answering(text string, more bool) func(net.Conn, *bufio.Reader, int32) {
	return func(c net.Conn, r *bufio.Reader, _ int32) {
		for {
			if _, _, err := read(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, text); err != nil || !more {
				return
			}
		}
	}
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Test", "1")
	r.Header.Set("Idempotency-Key", "1")
	require.True(t, http1.Serves(r))
	return r
}

// result is what a caller sees of a call.
type result struct {
	status       int
	header       string
	body         string
	failed, torn bool // without an answer, in its body
}

func call(rt http.RoundTripper, r *http.Request) (result, error) {
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return result{failed: true}, err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return result{
		status: resp.StatusCode, header: fmt.Sprint(resp.Header), body: string(b), torn: err != nil,
	}, err
}

// TestItDoesWhatNetHTTPDoes calls servers twice with this transport and that of net/http, and
// compares what a caller sees, and how many connections the two calls made.
func TestItDoesWhatNetHTTPDoes(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	long := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat(
		"x",
		9<<10,
	) + "\r\nContent-Length: 2\r\n\r\nok"
	for _, tt := range []struct {
		name, method, body string
		each               func(net.Conn, *bufio.Reader, int32)
		text               string // of the error
	}{
		{name: "length", each: answering(ok, true)},
		{name: "a body of 64 KiB", body: strings.Repeat("b", 64<<10), each: answering(ok, true)},
		{name: "chunks and a trailer", each: answering(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n", true)},
		{name: "no length", each: answering("HTTP/1.1 200 OK\r\n\r\nuntil the end", false)},
		{name: "HTTP/1.0", each: answering("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true)},
		{name: "close", each: answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true)},
		{name: "no body", each: answering("HTTP/1.1 204 No Content\r\n\r\n", true)},
		{name: "an empty body", each: answering("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", true)},
		{name: "HEAD", method: http.MethodHead, each: answering("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", true)},
		{name: "not modified", each: answering("HTTP/1.1 304 Not Modified\r\nContent-Length: 20\r\n\r\n", true)},
		{name: "interim answers", each: answering(
			"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+ok, true)},
		{name: "too many interim answers", each: answering(
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 400)+ok, true), text: "response headers exceeded"},
		{name: "another protocol", each: answering("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false)},
		{name: "a long header", each: answering(long, true), text: "response headers exceeded"},
		{name: "no HTTP", each: answering("hello\r\n\r\n", false), text: "malformed HTTP"},
		{name: "a wrong length", each: answering("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", false), text: "bad Content-Length"},
		{name: "two lengths", each: answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", false)},
		{name: "half a header", each: answering("HTTP/1.1 200 OK\r\nContent-Le", false)},
		{name: "half a body", each: answering("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", false)},
		{name: "half a chunk", each: answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", false)},
		{name: "more than the answer", each: answering(ok+"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse", false)},
		{name: "no answer", each: func(net.Conn, *bufio.Reader, int32) {}},
		{name: "reads, and does not answer", each: answering("", false)},
		{name: "answers before it reads the body", body: strings.Repeat("b", 64<<10), each: func(c net.Conn, r *bufio.Reader, _ int32) {
			if _, err := http.ReadRequest(r); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
				_, _ = io.Copy(io.Discard, r)
			}
		}},
		{name: "closes after each answer, without saying so", each: answering(ok, false)},
		{name: "takes a second request, and closes", each: func(c net.Conn, r *bufio.Reader, n int32) {
			_, _, _ = read(r)
			_, _ = io.WriteString(c, ok)
			if _, _, err := read(r); err == nil && n > 1 {
				_, _ = io.WriteString(c, ok)
			}
		}},
		{name: "breaks off the second answer", each: func(c net.Conn, r *bufio.Reader, _ int32) {
			_, _, _ = read(r)
			_, _ = io.WriteString(c, ok)
			if _, _, err := read(r); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConte")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			standard := &http.Transport{
				DisableCompression:     true,
				MaxResponseHeaderBytes: options().MaxHeaderBytes,
			}
			t.Cleanup(standard.CloseIdleConnections)
			var seen [2][]result
			var connections [2]int32
			for i, rt := range []http.RoundTripper{standard, newTransport(t, options())} {
				s := serve(t, tt.each)
				for range 2 {
					got, err := call(rt, request(t.Context(), t, tt.method, s.url, tt.body))
					if tt.text != "" {
						require.ErrorContains(t, err, tt.text)
					}
					seen[i] = append(seen[i], got)
					time.Sleep(
						20 * time.Millisecond,
					) // net/http notices closed connections in the background
				}
				connections[i] = s.connections.Load()
			}
			require.Equal(t, seen[0], seen[1])
			require.Equal(t, connections[0], connections[1])
		})
	}
}

// TestARequestIsSentTwiceAtMost has two kept connections that end with their next request. The first
// takes the request, and the second time it goes over a new connection.
func TestARequestIsSentTwiceAtMost(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	var together sync.WaitGroup
	together.Add(2)
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int32) {
		if _, _, err := read(r); err != nil {
			return
		}
		requests.Add(1)
		if n <= 2 {
			together.Done()
			together.Wait()
		}
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		if _, _, err := read(r); err == nil {
			requests.Add(1)
		}
	})
	tr := newTransport(t, options())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := call(tr, request(t.Context(), t, http.MethodPost, s.url, "")); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	got, err := call(tr, request(t.Context(), t, http.MethodPost, s.url, "body"))
	require.NoError(t, err)
	require.Equal(t, 204, got.status)
	require.EqualValues(t, 4, requests.Load())
	require.EqualValues(t, 3, s.connections.Load())
}

// TestTheSameRequestIsSent compares the bytes of requests.
func TestTheSameRequestIsSent(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 204 No Content\r\n\r\n"
	for _, change := range []func(r *http.Request){
		func(*http.Request) {},
		func(r *http.Request) { r.Host = "shop.example" },
		func(r *http.Request) { r.Close = true },
		func(r *http.Request) { r.Body, r.ContentLength, r.GetBody = http.NoBody, 0, nil },
		func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/a b", "x=1" },
		func(r *http.Request) { r.Header["User-Agent"] = []string{"mine"} },
		func(r *http.Request) { r.Header["X-Many"] = []string{"1", "2"} },
		func(r *http.Request) { r.Header["X-Lines"] = []string{"1\t2"} },
	} {
		var sent [2]string
		standard := &http.Transport{DisableCompression: true}
		t.Cleanup(standard.CloseIdleConnections)
		s := serve(t, func(c net.Conn, r *bufio.Reader, n int32) {
			var b strings.Builder
			if _, _, err := read(bufio.NewReaderSize(io.TeeReader(r, &b), 16)); err == nil {
				sent[n-1] = b.String()
				_, _ = io.WriteString(c, answer)
			}
		})
		for _, rt := range []http.RoundTripper{standard, newTransport(t, options())} {
			r := request(t.Context(), t, http.MethodPost, s.url, "body")
			change(r)
			require.True(t, http1.Serves(r))
			got, err := call(rt, r)
			require.NoError(t, err)
			require.Equal(t, 204, got.status)
		}
		require.NotEmpty(t, sent[0])
		require.Equal(t, sent[0], sent[1])
	}
}

func TestRefusedRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t, answering("", false))
	standard := &http.Transport{}
	for _, change := range []func(r *http.Request){
		func(r *http.Request) { r.Header["X Y"] = []string{"1"} },
		func(r *http.Request) { r.Header["X"] = []string{"1\r\nY: 2"} },
		func(r *http.Request) { r.Method = "PO ST" },
		func(r *http.Request) { r.URL.Host = "" },
	} {
		r := request(t.Context(), t, http.MethodPost, s.url, "")
		change(r)
		_, want := call(standard, r)
		_, err := call(newTransport(t, options()), r)
		require.Error(t, err)
		require.Equal(t, want.Error(), err.Error())
	}
	require.Zero(t, s.connections.Load())
}

func TestServes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *http.Request){
		"https":               func(r *http.Request) { r.URL.Scheme = "https" },
		"a name to translate": func(r *http.Request) { r.URL.Host = "bücher.example" },
		"its host":            func(r *http.Request) { r.Host = "bücher.example" },
		"a tunnel":            func(r *http.Request) { r.Method = http.MethodConnect },
		"a stream":            func(r *http.Request) { r.GetBody = nil },
		"no known length":     func(r *http.Request) { r.ContentLength = -1 },
		"a large body":        func(r *http.Request) { r.ContentLength = 64<<10 + 1 },
		"chunks":              func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"a trailer":           func(r *http.Request) { r.Trailer = http.Header{} },
		"wants a word first":  func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"an upgrade":          func(r *http.Request) { r.Header.Set("Upgrade", "x") },
		"a connection header": func(r *http.Request) { r.Header.Set("Connection", "close") },
	} {
		r := request(t.Context(), t, http.MethodPost, "http://127.0.0.1/", "body")
		change(r)
		require.False(t, http1.Serves(r), name)
	}
}

func TestTheEndOfTheContextEndsTheCall(t *testing.T) {
	t.Parallel()
	hang := func(text string) *server {
		return serve(t, func(c net.Conn, r *bufio.Reader, _ int32) {
			_, _, _ = read(r)
			_, _ = io.WriteString(c, text)
			_, _ = r.ReadByte() // until the caller closes
		})
	}
	tr := newTransport(t, options())
	cause := errors.New("enough")
	for name, text := range map[string]string{
		"no answer":     "",
		"half a header": "HTTP/1.1 200 OK\r\n",
		"half a body":   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
	} {
		s := hang(text)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
		_, err := call(tr, request(ctx, t, http.MethodPost, s.url, ""))
		require.ErrorIs(t, err, cause, name)
		_, err = call(tr, request(ctx, t, http.MethodPost, s.url, ""))
		require.ErrorIs(t, err, cause, name)
		require.EqualValues(t, 1, s.connections.Load(), "an ended context sends nothing")

		short, done := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = call(tr, request(short, t, http.MethodPost, s.url, ""))
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		done()
	}

	o := options()
	o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, errors.New("dial: interrupted")
	}
	short, done := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer done()
	_, err := call(newTransport(t, o), request(short, t, http.MethodPost, "http://192.0.2.1/", ""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, cause }
	_, err = call(
		newTransport(t, o),
		request(t.Context(), t, http.MethodPost, "http://192.0.2.1/", ""),
	)
	require.ErrorIs(t, err, cause)
}

// deadline is a context whose time is over when a channel is closed.
type deadline struct {
	context.Context

	done chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.done }

func (d deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestATimeoutClosesTheConnectionsThatMayBeDead has a host whose kept connections are dead all at
// once.
func TestATimeoutClosesTheConnectionsThatMayBeDead(t *testing.T) {
	t.Parallel()
	const kept = 5
	var together sync.WaitGroup
	together.Add(kept)
	s := serve(t, func(c net.Conn, r *bufio.Reader, n int32) {
		for again := false; ; again = true {
			if _, _, err := read(r); err != nil {
				return
			}
			if n <= kept {
				if again {
					continue
				}
				together.Done()
				together.Wait()
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tr := newTransport(t, options())
	var calls sync.WaitGroup
	for range kept {
		calls.Go(func() {
			if _, err := call(tr, request(t.Context(), t, http.MethodPost, s.url, "")); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := call(tr, request(short, t, http.MethodPost, s.url, ""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	long, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = call(tr, request(long, t, http.MethodPost, s.url, ""))
	require.NoError(t, err)
}

// TestATimeoutKeepsTheConnectionsThatWereUsedSince checks that one slow path of a host costs its other
// calls no connections.
func TestATimeoutKeepsTheConnectionsThatWereUsedSince(t *testing.T) {
	t.Parallel()
	var together sync.WaitGroup
	together.Add(2)
	hanging := make(chan struct{})
	s := serve(t, func(c net.Conn, r *bufio.Reader, _ int32) {
		for {
			_, body, err := read(r)
			switch {
			case err != nil:
				return
			case body == "hang":
				close(hanging)
				continue
			case body == "first":
				together.Done()
				together.Wait()
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tr := newTransport(t, options())
	answered := func(body string) {
		if _, err := call(tr, request(t.Context(), t, http.MethodPost, s.url, body)); err != nil {
			t.Error(err)
		}
	}
	var calls sync.WaitGroup
	calls.Go(func() { answered("first") })
	calls.Go(func() { answered("first") })
	calls.Wait()
	ctx := deadline{t.Context(), make(chan struct{})}
	calls.Go(func() {
		_, err := call(tr, request(ctx, t, http.MethodPost, s.url, "hang"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	<-hanging
	answered("meanwhile")
	close(ctx.done)
	calls.Wait()
	answered("after")
	require.EqualValues(t, 2, s.connections.Load())
}

func TestABodyThatIsNotReadClosesItsConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true))
	tr := newTransport(t, options())
	for range 2 {
		resp, err := tr.RoundTrip(request(t.Context(), t, http.MethodPost, s.url, ""))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, 2, s.connections.Load())
}

func TestIdleConnectionsAreLimitedAndTimeOut(t *testing.T) {
	t.Parallel()
	open := &atomic.Int32{}
	var together sync.WaitGroup // all requests of a round are there before the first answer
	count := func(c net.Conn, r *bufio.Reader, _ int32) {
		open.Add(1)
		defer open.Add(-1)
		for {
			if _, _, err := read(r); err != nil {
				return
			}
			together.Done()
			together.Wait()
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}
	a, b := serve(t, count), serve(t, count)
	round := func(tr *http1.Transport, s *server, n int) {
		together.Add(n)
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if _, err := call(
					tr,
					request(t.Context(), t, http.MethodPost, s.url, ""),
				); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	becomes := func(n int32) {
		require.Eventually(
			t,
			func() bool { return open.Load() == n },
			10*time.Second,
			time.Millisecond,
			"%d connections",
			n,
		)
	}
	o := options()
	o.MaxIdle, o.MaxIdlePerHost = 5, 4
	tr := newTransport(t, o)
	round(tr, a, 6)
	becomes(4)
	round(tr, b, 3)
	becomes(5)
	tr.CloseIdleConnections()
	becomes(0)

	o.IdleTimeout = 50 * time.Millisecond
	tr = newTransport(t, o)
	round(tr, a, 3)
	becomes(0)
	round(tr, a, 1) // after the sweep stopped for want of connections
	becomes(0)
}

// TestEveryCallGetsItsOwnAnswer makes concurrent calls, of which some end early, to a server that
// answers with what it was sent.
func TestEveryCallGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch r.Header.Get("X-Do") {
		case "wait":
			time.Sleep(time.Millisecond)
		case "close":
			w.Header().Set("Connection", "close")
		case "abort":
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(b)
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	tr := newTransport(t, options())
	var calls sync.WaitGroup
	for worker := range 32 {
		calls.Go(func() {
			for i := range 100 {
				body := fmt.Sprintf("%d/%d", worker, i)
				timeout := 30 * time.Second
				do := []string{"", "", "", "close", "wait", "abort"}[(worker+i)%6]
				if do == "wait" && i%2 == 0 {
					timeout = time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				r := request(ctx, t, http.MethodPost, server.URL, body)
				r.Header.Set("X-Do", do)
				got, err := call(tr, r)
				cancel()
				switch {
				case err == nil && got.body != body:
					t.Errorf("asked %s, answered %s", body, got.body)
				case err != nil && timeout > time.Second && do != "abort":
					t.Errorf("%s %s: %v", do, body, err)
				case err == nil && do == "abort":
					t.Error("an aborted answer has no error")
				}
			}
		})
	}
	calls.Wait()
}
