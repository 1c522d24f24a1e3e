package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Complete reports the outcome of an accepted fire: status is delivered or failed. It needs no key.
// repeated means that the outcome was known.
func (c *Client) Complete(
	ctx context.Context,
	id timer.FireID,
	token, status, message string,
) (repeated bool, err error) {
	var out struct {
		Repeated bool `json:"repeated"`
	}
	in := map[string]string{"token": token, "status": status}
	if message != "" {
		in["message"] = message
	}
	_, err = c.WithKey("").
		Do(ctx, http.MethodPost, "/api/v2/fires/"+id.String()+"/complete", nil, in, &out)
	return out.Repeated, err
}

// Redrive selects failed fires of an app. Empty fields select all.
type Redrive struct {
	Timer   string   `json:"timer,omitempty"`
	Fires   []string `json:"fires,omitempty"`
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Failure string   `json:"failure,omitempty"`
	Again   bool     `json:"again,omitempty"`
	DryRun  bool     `json:"dry_run,omitempty"`
	Limit   int      `json:"limit,omitempty"`

	Key string `json:"-"` // idempotency key; may be empty
}

// RedriveResult is the number of fires that a redrive selected, and created unless it was a dry
// run.
type RedriveResult struct {
	DryRun bool   `json:"dry_run"`
	Series string `json:"series"`
	Count  int64  `json:"count"`
	More   bool   `json:"more"`
	Sample []Fire `json:"sample"`
}

// Redrive fires failed fires again.
func (c *Client) Redrive(ctx context.Context, app string, r Redrive) (RedriveResult, error) {
	var out RedriveResult
	h := http.Header{}
	if r.Key != "" {
		h.Set("Idempotency-Key", r.Key)
	}
	_, err := c.Do(ctx, http.MethodPost, appPath(app, "/redrives"), h, r, &out)
	return out, err
}

// DeadLetter is a fire that failed for good.
type DeadLetter struct {
	Fire

	LastError string `json:"last_error"`
}

// DeadLetters returns up to a thousand dead letters that were not redriven.
func (c *Client) DeadLetters(ctx context.Context, app string) ([]DeadLetter, error) {
	var out struct{ Items []DeadLetter }
	_, err := c.Do(ctx, http.MethodGet, appPath(app, "/dead-letters?limit=1000"), nil, nil, &out)
	return out.Items, err
}

// Settings are an app's limits and rules.
type Settings struct {
	Rate       float64  `json:"rate,omitempty"`
	Burst      int      `json:"burst,omitempty"`
	Concurrent int      `json:"concurrent,omitempty"`
	Allow      []string `json:"allow,omitempty"`
}

// PutSettings replaces an app's settings.
func (c *Client) PutSettings(ctx context.Context, app string, s Settings) error {
	_, err := c.Do(ctx, http.MethodPut, appPath(app, "/settings"), nil, s, nil)
	return err
}

// GetSettings returns an app's settings.
func (c *Client) GetSettings(ctx context.Context, app string) (Settings, error) {
	var s Settings
	_, err := c.Do(ctx, http.MethodGet, appPath(app, "/settings"), nil, nil, &s)
	return s, err
}

// SigningKey is a new signing key. Lists show no secret.
type SigningKey struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Secret string `json:"secret"`
	Public string `json:"public"`
}

// CreateSigningKey creates a key of kind hmac or ed25519.
func (c *Client) CreateSigningKey(ctx context.Context, app, kind string) (SigningKey, error) {
	var k SigningKey
	_, err := c.Do(
		ctx,
		http.MethodPost,
		appPath(app, "/signing-keys"),
		nil,
		map[string]string{"kind": kind},
		&k,
	)
	return k, err
}

// RetireSigningKey retires a signing key.
func (c *Client) RetireSigningKey(ctx context.Context, app, id string) error {
	_, err := c.Do(ctx, http.MethodDelete, appPath(app, "/signing-keys/"+id), nil, nil, nil)
	return err
}

// Key is a new API key. Lists do not show the key itself.
type Key struct {
	ID    string `json:"id"`
	App   string `json:"app"`
	Name  string `json:"name"`
	Scope string `json:"scope"`
	Key   string `json:"key"`
}

// CreateKey creates an API key of an app.
func (c *Client) CreateKey(ctx context.Context, app, name, scope string) (Key, error) {
	var k Key
	_, err := c.Do(
		ctx,
		http.MethodPost,
		appPath(app, "/keys"),
		nil,
		map[string]string{"name": name, "scope": scope},
		&k,
	)
	return k, err
}

// Keys lists an app's API keys.
func (c *Client) Keys(ctx context.Context, app string) ([]Key, error) {
	var page struct {
		Items []Key `json:"items"`
	}
	_, err := c.Do(ctx, http.MethodGet, appPath(app, "/keys"), nil, nil, &page)
	return page.Items, err
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, app, id string) error {
	_, err := c.Do(ctx, http.MethodDelete, appPath(app, "/keys/"+id), nil, nil, nil)
	return err
}

func appPath(app, below string) string { return "/api/v2/apps/" + url.PathEscape(app) + below }
