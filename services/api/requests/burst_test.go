package requests_test

import (
	"context"
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

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// dribbleFrom is dribble from another loopback address.
func dribbleFrom(ctx context.Context, from, to, path string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(
		c,
		"POST %s HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		path,
	)
	return c, err
}

// post sends a request over a real connection.
func post(t *testing.T, client *http.Client, url, body string) apitest.Answer {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(q)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return apitest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}
}

// TestCompletionsAreServedDuringABurst checks that callers without a valid token cannot block those
// with one, neither with bodies that never arrive, from one address or many, nor with wrong tokens.
func TestCompletionsAreServedDuringABurst(t *testing.T) {
	t.Parallel()
	const fires, honest = 10, 3
	e := apitest.NewExecutor(
		t,
		func(o *api.Options) { o.MaxCompletions, o.MaxBodies, o.MaxInFlight = 2, 16, 1 },
	)
	server := httptest.NewServer(e.Api.Handler())
	defer server.Close()
	at := server.Listener.Addr().String()
	held := e.Held(t, "shop", "bill", fires)
	for _, f := range held {
		e.Accept(t, f)
	}
	path := func(f timer.FireID) string { return "/api/v2/fires/" + f.String() + "/complete" }

	ctx, stop := context.WithCancel(t.Context())
	var burst sync.WaitGroup
	var slow, wrong atomic.Int64
	for _, from := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.9"} {
		burst.Go(func() { // bodies that never arrive: a new one replaces each aborted one
			var open []net.Conn
			for n := 0; ctx.Err() == nil; n++ {
				if from == "127.0.0.9" {
					from = fmt.Sprintf("127.0.%d.9", n%200+1)
				}
				c, err := dribbleFrom(ctx, from, at, path(held[n%fires].FireID))
				if err != nil {
					break
				}
				slow.Add(1)
				if open = append(open, c); len(open) > 50 {
					_ = open[0].Close()
					open = open[1:]
				}
			}
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
	for range 2 {
		burst.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				q, err := http.NewRequestWithContext(
					ctx,
					http.MethodPost,
					server.URL+path(held[n%fires].FireID),
					strings.NewReader(`{"token":"x","status":"failed"}`),
				)
				if err != nil {
					return
				}
				q.Header.Set("Content-Type", "application/json")
				if resp, err := client.Do(q); err == nil {
					_ = resp.Body.Close()
					wrong.Add(1)
				}
			}
		})
	}
	defer burst.Wait()
	defer stop()
	require.Eventually(
		t,
		func() bool { return slow.Load() > 200 && wrong.Load() > 200 },
		time.Minute,
		5*time.Millisecond,
		"the burst has started",
	)

	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for _, f := range held {
		for n := range honest {
			a := post(
				t,
				client,
				server.URL+path(f.FireID),
				`{"token":"`+e.Tokens.Token(f.FireID, 1)+`","status":"delivered"}`,
			)
			require.Equal(t, 200, a.Status, a.Body)
			require.Contains(t, a.Body, fmt.Sprintf(`"repeated":%t`, n > 0))
		}
	}
}

// TestTheOldestBodyIsAborted checks that the oldest body is aborted, and the oldest of its address
// when that is at its limit.
func TestTheOldestBodyIsAborted(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t, func(o *api.Options) { o.MaxBodies = 16 }) // two per address
	server := httptest.NewServer(e.Api.Handler())
	defer server.Close()
	const path = "/api/v2/fires/1-1/complete"
	other, err := dribbleFrom(t.Context(), "127.0.0.2", server.Listener.Addr().String(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	var conns []net.Conn
	for range 10 {
		conns = append(conns, dribble(t, server.Listener.Addr().String(), "POST", path, ""))
	}
	for _, c := range conns {
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Contains(t, string(got), "HTTP/1.1 408 ")
		require.Contains(t, string(got), "send it at once")
	}
	require.Equal(
		t,
		413,
		e.Call(
			t,
			http.MethodPost,
			path,
			`{"token":"x","status":"delivered","message":"`+strings.Repeat("x", 9<<10)+`"}`,
			nil,
		).Status,
	)
}

// completingStore records that a completion was requested.
type completingStore struct {
	api.Store

	asked chan timer.FireID
}

func (s *completingStore) Complete(
	ctx context.Context,
	app string,
	c store.Completion,
) (store.CompletionResult, error) {
	select {
	case s.asked <- c.FireID:
	default:
	}
	return s.Store.Complete(ctx, app, c)
}

// TestAnEarlyCompletionBlocksNoOther checks that a completion before its attempt is recorded waits
// without blocking others, for longer than a body may take.
func TestAnEarlyCompletionBlocksNoOther(t *testing.T) {
	t.Parallel()
	noted := &completingStore{asked: make(chan timer.FireID, 1)}
	e := apitest.NewExecutor(t, func(o *api.Options) {
		noted.Store, o.Store = o.Store, noted
		o.MaxCompletions, o.BodyTimeout = 1, 200*time.Millisecond
	})
	server := httptest.NewServer(e.Api.Handler())
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	held := e.Held(t, "shop", "bill", 2)
	e.Accept(t, held[1])
	complete := func(f timer.Fire) apitest.Answer {
		return post(
			t,
			client,
			server.URL+"/api/v2/fires/"+f.FireID.String()+"/complete",
			`{"token":"`+e.Tokens.Token(f.FireID, 1)+`","status":"delivered"}`,
		)
	}
	early := make(chan apitest.Answer, 1)
	go func() { early <- complete(held[0]) }()
	require.Equal(t, held[0].FireID, <-noted.asked)
	a := complete(held[1])
	require.Equal(t, 200, a.Status, a.Body)
	a = <-early
	require.Equal(
		t,
		503,
		a.Status,
		"its connection is not given up when a body's time is over: %s",
		a.Body,
	)
	require.Equal(t, "1", a.Header.Get("Retry-After"))
}
