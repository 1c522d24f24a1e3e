package pulsarauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/bus/pulsarauth"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		os.Exit(code)
	}))
}

// issuer answers requests for tokens, and remembers them.
type issuer struct {
	url    string
	asked  []url.Values
	expiry int // of the tokens, in seconds
	refuse bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{expiry: 3600}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL + "/realm/"
	mux.HandleFunc(
		"GET /realm/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"token_endpoint":%q}`, server.URL+"/token")
		},
	)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if i.refuse {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		_ = r.ParseForm()
		i.asked = append(i.asked, r.PostForm)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": fmt.Sprint("token-", len(i.asked)), "expires_in": i.expiry,
		})
	})
	return i
}

func writeKey(t *testing.T, path, client string) {
	t.Helper()
	text := fmt.Sprintf(
		"\ufeff"+`{"type":"client_credentials","client_id":%q,"client_secret":"s"}`,
		client,
	)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	path := filepath.Join(t.TempDir(), "key.json")
	writeKey(t, path, "first")
	tokens, err := pulsarauth.NewTokenSource(pulsarauth.Options{
		Issuer: i.url, KeyFile: "file://" + path, Audience: "a", Scopes: []string{"x", "y"},
	})
	require.NoError(t, err)
	require.Empty(t, i.asked, "the issuer may be unavailable")

	i.refuse = true
	_, err = tokens.Token()
	require.ErrorContains(t, err, "401")
	i.refuse, i.expiry = false, 30 // which is too soon to be used again
	requireToken := func(want string) {
		got, err := tokens.Token()
		require.NoError(t, err)
		require.Equal(t, want, got.AccessToken)
	}
	requireToken("token-1")
	require.Equal(t, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"first"}, "client_secret": {"s"},
		"audience": {"a"}, "scope": {"x y"},
	}, i.asked[0])

	writeKey(t, path, "second")
	i.expiry = 3600
	requireToken("token-2")
	require.Equal(t, "second", i.asked[1].Get("client_id"), "the key file has changed")
	requireToken("token-2")
}

func TestKeyFileThatCannotWork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.json")
	for text, want := range map[string]string{
		"":                      "it is not JSON with client_id and client_secret",
		`{"client_id":"c"}`:     "it is not JSON with client_id and client_secret",
		`"hunter2"`:             "it is not JSON with client_id and client_secret",
		`{"client_secret":"s"}`: "it is not JSON with client_id and client_secret",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := pulsarauth.NewTokenSource(pulsarauth.Options{KeyFile: path})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := pulsarauth.NewTokenSource(pulsarauth.Options{KeyFile: path + "-nowhere"})
	require.ErrorContains(t, err, "no such file")
}

func TestIssuerThatDoesNotDescribeItself(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.json")
	writeKey(t, path, "c")
	for body, want := range map[string]string{
		"": "404", "{}": "has no token_endpoint", "hello": "decoding the answer",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if body == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, body)
		}))
		tokens, err := pulsarauth.NewTokenSource(
			pulsarauth.Options{Issuer: server.URL, KeyFile: path},
		)
		require.NoError(t, err)
		_, err = tokens.Token()
		server.Close()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, server.URL)
	}
}
