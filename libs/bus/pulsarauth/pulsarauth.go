// Package pulsarauth gets tokens for Pulsar by OAuth2 client credentials, from the same key file and
// issuer as Pulsar's own clients.
package pulsarauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	requestTimeout = 5 * time.Second // of one request to the issuer
	maxBody        = 1 << 20         // largest discovery document read, in bytes
	// refreshEarly is how long before its expiry a token is replaced. A broker asks for a new token
	// when the old one expires.
	refreshEarly = time.Minute
	discovery    = ".well-known/openid-configuration"
)

// Options say where tokens come from.
type Options struct {
	Issuer   string // URL below which the issuer describes itself (OpenID discovery)
	KeyFile  string // JSON with client_id and client_secret
	Audience string // may be empty
	Scopes   []string
}

// NewTokenSource returns a source that fetches a token when the one before is about to expire. The
// key file must be valid, and is read again for each token. The issuer may be unavailable. The source
// is safe for concurrent use, and callers that need a new token share one request.
//
// Pulsar's own flow is not used, because its requests have no timeout: an issuer that accepts
// connections and never answers would keep a client from reconnecting forever.
func NewTokenSource(o Options) (oauth2.TokenSource, error) {
	if _, err := readKey(o.KeyFile); err != nil {
		return nil, err
	}
	s := &source{Options: o, client: &http.Client{Timeout: requestTimeout}}
	return oauth2.ReuseTokenSourceWithExpiry(nil, s, refreshEarly), nil
}

type source struct {
	Options

	client *http.Client
}

// Token fetches a token.
func (s *source) Token() (*oauth2.Token, error) {
	k, err := readKey(s.KeyFile)
	if err != nil {
		return nil, err
	}
	// The interface has no context. Each request has a timeout.
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, s.client)
	endpoint, err := s.tokenEndpoint(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the issuer %s for its token endpoint: %w", s.Issuer, err)
	}
	params := url.Values{}
	if s.Audience != "" {
		params.Set("audience", s.Audience)
	}
	c := clientcredentials.Config{
		ClientID:       k.ClientID,
		ClientSecret:   k.ClientSecret,
		TokenURL:       endpoint,
		Scopes:         s.Scopes,
		EndpointParams: params,
		AuthStyle:      oauth2.AuthStyleInParams, // as Pulsar's own clients
	}
	t, err := c.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetching a token from %s: %w", endpoint, err)
	}
	return t, nil
}

// tokenEndpoint asks the issuer where it issues tokens.
func (s *source) tokenEndpoint(ctx context.Context) (string, error) {
	from, err := url.JoinPath(s.Issuer, discovery)
	if err != nil {
		return "", fmt.Errorf("making the URL: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("making the request: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err // it names the method and the URL
	}
	defer resp.Body.Close()
	var found struct {
		TokenEndpoint string `json:"token_endpoint"`
	}
	switch err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&found); {
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answered %s", from, resp.Status)
	case err != nil:
		return "", fmt.Errorf("decoding the answer of %s: %w", from, err)
	case found.TokenEndpoint == "":
		return "", fmt.Errorf("the answer of %s has no token_endpoint", from)
	}
	return found.TokenEndpoint, nil
}

// key is the part of a key file that counts.
type key struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

var errKey = errors.New("it is not JSON with client_id and client_secret")

// readKey never returns an error with a part of the file.
func readKey(path string) (key, error) {
	text, err := os.ReadFile(strings.TrimPrefix(path, "file://"))
	if err != nil {
		return key{}, fmt.Errorf("reading the OAuth2 key: %w", err)
	}
	var k key
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors write a byte order mark
	if json.Unmarshal(text, &k) != nil || k.ClientID == "" || k.ClientSecret == "" {
		return key{}, fmt.Errorf("reading the OAuth2 key from %s: %w", path, errKey)
	}
	return k, nil
}
