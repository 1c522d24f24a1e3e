package cluster

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxyCutsAndHeals(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	p, err := StartProxy(t.Context(), srv.Listener.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	u, err := p.URL(srv.URL + "/x")
	require.NoError(t, err)
	require.NoError(t, get(t.Context(), u))
	p.Cut()
	require.Error(t, get(t.Context(), u))
	require.NoError(t, p.Heal())
	require.NoError(t, get(t.Context(), u))
}

func TestProxySlowsAndHolds(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	p, err := StartProxy(t.Context(), srv.Listener.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	u, err := p.URL(srv.URL)
	require.NoError(t, err)
	const by = 150 * time.Millisecond
	require.NoError(t, p.Slow(by))
	began := time.Now()
	require.NoError(t, get(t.Context(), u))
	require.GreaterOrEqual(t, time.Since(began), by)
	require.NoError(t, p.Heal())

	require.NoError(t, p.Hold())
	ctx, cancel := context.WithTimeout(t.Context(), by)
	defer cancel()
	require.ErrorIs(t, get(ctx, u), context.DeadlineExceeded)
	require.NoError(t, p.Heal())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	n, err := p.Connections()
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, get(t.Context(), u))
}
