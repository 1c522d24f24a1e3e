package pulsarbus

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

// TestAdminLogin checks what the test server does not: the admin API gets the token.
func TestAdminLogin(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
	}))
	defer server.Close()
	c := &Config{
		AdminURL: server.URL,
		Tokens:   oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"}),
	}
	r, err := newREST(c)
	require.NoError(t, err)
	defer r.client.CloseIdleConnections()
	require.NoError(t, r.do(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, "Bearer hunter2", got)

	c.Tokens = noTokens{}
	r, err = newREST(c)
	require.NoError(t, err)
	require.ErrorIs(t, r.do(t.Context(), http.MethodGet, "/", nil, nil), errNoToken)
}

var errNoToken = errors.New("the issuer is unavailable")

type noTokens struct{}

func (noTokens) Token() (*oauth2.Token, error) { return nil, errNoToken }
