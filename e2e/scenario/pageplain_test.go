package scenario

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/browser"
	"github.com/carillon-timer/carillon/e2e/client"
)

// TestPageSignsInOverPlainHTTP signs in over plain HTTP at a host name that is not local. There
// browsers do not say by Sec-Fetch-Site that a form comes from the page itself, only by Origin.
func TestPageSignsInOverPlainHTTP(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		api, err := url.Parse(env.API())
		require.NoError(t, err)
		if api.Hostname() == "127.0.0.1" { // on Kubernetes it has another address, which is not local
			api.Host = browser.RemoteHost + ":" + api.Port()
		}
		tab := browser.Start(t).Open(t, api.String())
		tab.Go(t, "/ui/operations")
		require.Contains(t, tab.Path(t), "/ui/sign-in?next=")
		tab.Fill(t, "input[name=key]", client.AdminKey)
		tab.Follow(t, "main button")
		require.Equal(t, "/ui/operations", tab.Path(t))
	})
}
