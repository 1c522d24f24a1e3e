package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"

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
	p.Heal()
	require.NoError(t, get(t.Context(), u))
}
