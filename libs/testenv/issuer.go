package testenv

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer is an OAuth2 server that issues tokens to one client. The test's Pulsar accepts them.
type Issuer struct {
	URL     string
	KeyFile string // has the client's id and secret

	// Forge makes the issuer sign tokens with a key that Pulsar does not know.
	Forge atomic.Bool
	// Issued counts the tokens.
	Issued atomic.Int32
}

// PulsarIssuer returns an issuer, which ends with the test.
func PulsarIssuer(t testing.TB) *Issuer {
	t.Helper()
	secret, err := os.ReadFile(
		filepath.Join(require(t, "pulsar", "CARILLON_TEST_TLS_DIR"), "token.key"),
	)
	if err != nil {
		t.Fatalf("reading the key of tokens: %v", err)
	}
	i := &Issuer{KeyFile: filepath.Join(t.TempDir(), "key.json")}
	text := []byte(`{"type":"client_credentials","client_id":"carillon","client_secret":"hunter2"}`)
	if err := os.WriteFile(i.KeyFile, text, 0o600); err != nil {
		t.Fatalf("writing the key file: %v", err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL
	mux.HandleFunc(
		"GET /.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"token_endpoint": i.URL + "/token"})
		},
	)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("grant_type") != "client_credentials" ||
			r.PostFormValue("client_id") != "carillon" ||
			r.PostFormValue("client_secret") != "hunter2" {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		key := secret
		if i.Forge.Load() {
			key = make([]byte, len(secret))
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
			Subject:   "carillon",
			ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour)),
		}).SignedString(key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		i.Issued.Add(1)
		answer(w, map[string]any{
			"access_token": token,
			"token_type":   "Bearer",
			"expires_in":   3600, //nolint:mnd // an hour
		})
	})
	return i
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
