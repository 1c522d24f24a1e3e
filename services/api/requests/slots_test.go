package requests_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestSlotsWait: a request waits until another one has ended, and not for ever.
func TestSlotsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := requests.NewSlots(1)
		require.True(t, s.Acquire(t.Context(), time.Second))
		began := time.Now()
		require.False(t, s.Acquire(t.Context(), time.Second))
		require.Equal(t, time.Second, time.Since(began))
		time.AfterFunc(500*time.Millisecond, s.Release)
		require.True(t, s.Acquire(t.Context(), time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, s.Acquire(ctx, time.Minute), "the caller has left")
	})
}

// dribble sends the head of a request and the beginning of its body, and then nothing.
func dribble(t *testing.T, addr, method, path, header string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = fmt.Fprintf(
		c,
		"%s %s HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 1000\r\nConnection: close\r\n%s\r\n{",
		method,
		path,
		header,
	)
	require.NoError(t, err)
	return c
}

// watched reports when the body of a request is read, and so has its slot.
type watched struct {
	io.ReadCloser

	reading chan<- struct{}
}

func (b *watched) Read(p []byte) (int, error) {
	select {
	case b.reading <- struct{}{}:
	default:
	}
	return b.ReadCloser.Read(p)
}

// hanging is a store that does not answer lookups of keys until it is released.
type hanging struct {
	api.Store

	asked chan struct{}
	until chan struct{}
}

func (h *hanging) APIKey(context.Context, string) (store.APIKey, error) {
	h.asked <- struct{}{}
	<-h.until
	return store.APIKey{}, timer.Unavailable("reading a key", nil)
}

// hangingTokens are tokens of a provider that does not answer.
type hangingTokens struct {
	asked chan struct{}
	until chan struct{}
}

func (h *hangingTokens) Verify(context.Context, string) (*auth.Person, error) {
	h.asked <- struct{}{}
	<-h.until
	return nil, timer.Unavailable("asking the provider", nil)
}

// TestTokensOfAHangingProviderKeepKeysWorking sends as many tokens as are verified at once. Callers
// with keys are served meanwhile.
func TestTokensOfAHangingProviderKeepKeysWorking(t *testing.T) {
	t.Parallel()
	h := &hangingTokens{asked: make(chan struct{}), until: make(chan struct{})}
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Auth.Tokens = h
		o.MaxInFlight, o.Timeout = 2, time.Hour // no request times out
	})
	status := func(credential string) int {
		return f.Call(
			t, http.MethodGet, "/api/v2/timers/1?app=shop", "", apitest.Bearer(credential),
		).Status
	}
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- status("a.b.c") }()
		<-h.asked
	}
	require.Equal(t, 503, status("a.b.c"), "their number is bounded")
	require.Equal(t, 404, status(admin))
	require.Equal(t, 401, status(apikey.New().Reveal()), "keys are looked up")
	close(h.until)
	require.Equal(t, 503, <-done)
	require.Equal(t, 503, <-done)
}

func TestKeyLookupsHoldNoRequestSlots(t *testing.T) {
	t.Parallel()
	h := &hanging{asked: make(chan struct{}), until: make(chan struct{})}
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		h.Store, o.Store = o.Store, h
		o.MaxInFlight, o.Timeout = 2, time.Hour // no request times out
	})
	done := make(chan int, 2)
	get := func() {
		done <- f.Call(t, http.MethodGet, "/api/v2/timers/1?app=shop", "", apitest.Bearer(apikey.New().Reveal())).Status
	}
	go get()
	<-h.asked
	reading := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &watched{ReadCloser: r.Body, reading: reading}
		f.Api.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	// One slow caller with a key takes one slot; the guesser does not get the other.
	dribble(
		t,
		server.Listener.Addr().String(),
		"POST",
		"/api/v2/timers",
		"Authorization: Bearer "+admin+"\r\n",
	)
	<-reading
	for range 20 {
		require.Equal(
			t,
			404,
			f.Call(
				t,
				http.MethodGet,
				"/api/v2/timers/1?app=shop",
				"",
				apitest.Bearer(admin),
			).Status,
		)
	}
	go get()
	<-h.asked
	status := func(key string) int {
		return f.Call(
			t,
			http.MethodGet,
			"/api/v2/timers/1?app=shop",
			"",
			apitest.Bearer(key),
		).Status
	}
	require.Equal(t, 503, status(apikey.New().Reveal()), "and their number is bounded")
	require.Equal(t, 404, status(admin), "a key that needs no lookup needs no slot")
	close(h.until)
	require.Equal(t, 503, <-done)
	require.Equal(t, 503, <-done)
}
