package scenario

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/browser"
	"github.com/carillon-timer/carillon/e2e/client"
)

// TestPageSignsInOverPlainHTTP signs in over plain HTTP at an address that is not local. There
// browsers do not say by Sec-Fetch-Site that a form comes from the page itself, only by Origin.
func TestPageSignsInOverPlainHTTP(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		api, err := url.Parse(env.API())
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(api) // it keeps the Host of requests
		ln, err := net.Listen("tcp4", net.JoinHostPort(outerAddress(t), "0"))
		require.NoError(t, err)
		srv := httptest.NewUnstartedServer(http.HandlerFunc(proxy.ServeHTTP))
		require.NoError(t, srv.Listener.Close())
		srv.Listener = ln
		srv.Start()
		t.Cleanup(srv.Close)

		tab := browser.Start(t).Open(t, srv.URL)
		tab.Go(t, "/ui/operations")
		require.Contains(t, tab.Path(t), "/ui/sign-in?next=")
		tab.Fill(t, "input[name=key]", client.AdminKey)
		tab.Follow(t, "main button")
		require.Equal(t, "/ui/operations", tab.Path(t))
	})
}

// outerAddress returns an address of this host that is not local.
func outerAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("NOT TESTED: this host has no address but local ones")
	return ""
}
