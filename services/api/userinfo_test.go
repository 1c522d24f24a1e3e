package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api"
)

// withPassword returns v2Body with a user and a password in its URL.
func withPassword(t *testing.T, body string) string {
	t.Helper()
	out := strings.Replace(body, "https://example.com", "https://me:hunter2@example.com", 1)
	require.NotEqual(t, body, out)
	return out
}

// stored returns what the store has of a timer, and its decrypted Authorization header.
func (f *fixture) stored(
	t *testing.T,
	ring *encryption.Keyring,
	name string,
) (text, authorization string) {
	t.Helper()
	had, err := f.store.TimerByName(t.Context(), "shop", name)
	require.NoError(t, err)
	b, err := json.Marshal(had.Definition)
	require.NoError(t, err)
	if sealed, ok := had.Definition.Target.SecretHeaders["Authorization"]; ok {
		open, err := ring.Open(sealed, callback.SecretBinding("shop"))
		require.NoError(t, err)
		authorization = open.Reveal()
	}
	return string(b), authorization
}

const meHunter2 = "Basic bWU6aHVudGVyMg=="

func TestAPasswordInAURLIsASecret(t *testing.T) {
	t.Parallel()
	ring := testKeyring(t)
	f := setup(t, func(o *api.Options) { o.Secrets = ring })
	body := withPassword(t, v2Body)
	made := f.call(t, http.MethodPost, "/api/v2/timers", body, nil)
	require.Equal(t, 201, made.status, made.body)
	text, header := f.stored(t, ring, "bill")
	require.NotContains(t, text, "hunter2")
	require.Equal(t, meHunter2, header)
	require.Equal(
		t,
		200,
		f.call(t, http.MethodPost, "/api/v2/timers", body, nil).status,
		"the same is the same",
	)

	list := f.call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil)
	for _, a := range []answer{made, list} {
		require.NotContains(t, a.body, "hunter2")
		require.Contains(t, a.body, `"secret_headers":{"Authorization":"REDACTED"}`)
		require.Contains(t, a.body, `"url":"https://example.com`)
	}
	// An answer can be sent back as a change, and keeps the secret.
	var shown struct{ Target json.RawMessage }
	made.into(t, 201, &shown)
	head, _, _ := strings.Cut(v2Body, `"target":`)
	put := head + `"target":` + string(shown.Target) + `}`
	a := f.call(t, http.MethodPut, "/api/v2/timers", put, nil)
	require.Equal(t, 200, a.status, a.body)
	_, header = f.stored(t, ring, "bill")
	require.Equal(t, meHunter2, header)

	for what, bad := range map[string]string{
		"Authorization is given besides":    strings.Replace(body, `"target":{`, `"target":{"headers":{"authorization":["x"]},`, 1),
		"has a variable":                    strings.Replace(strings.Replace(body, "me:hunter2", "{{label.x}}:hunter2", 1), `"target":{`, `"target":{"templates":true,`, 1),
		"give client_id and secret":         strings.Replace(v2Body, `"target":{`, `"target":{"oauth2":{"token_url":"https://me:hunter2@id.example.com/","client_id":"a","secret":"b"},`, 1),
		"is not a URL that begins with":     strings.Replace(body, "https://", "ftp://", 1),
		"has a user or a password that can": strings.Replace(body, "hunter2", "hunter2 %zz", 1),
	} {
		a := f.call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			strings.Replace(bad, `"bill"`, `"other"`, 1),
			nil,
		)
		require.Equal(t, 422, a.status, "%s: %s", what, a.body)
		require.Contains(t, a.body, what)
		require.NotContains(t, a.body, "hunter2")
	}
	keyless := setup(t, func(o *api.Options) { o.Secrets = nil })
	a = keyless.call(t, http.MethodPost, "/api/v2/timers", body, nil)
	require.Equal(t, 422, a.status)
	require.Contains(t, a.body, "no encryption keys")
}

// TestV1KeepsAPasswordInAURL checks that v1 callers may use passwords in URLs, and that neither the
// store nor an answer has them.
func TestV1KeepsAPasswordInAURL(t *testing.T) {
	t.Parallel()
	const v1 = `{"app":"shop","name":"NAME","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"https://me:hunter2@example.com/x","method":"POST"}}`
	ring := testKeyring(t)
	f := setup(t, func(o *api.Options) { o.Secrets = ring })
	var made, again v1Reply
	f.call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "new", 1), nil).
		into(t, 200, &made)
	text, header := f.stored(t, ring, "new")
	require.NotContains(t, text, "hunter2")
	require.Equal(t, meHunter2, header)
	f.call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "new", 1), nil).
		into(t, 200, &again)
	require.Equal(t, made.ID, again.ID)

	// This one was stored before passwords were secrets.
	had, err := f.store.TimerByName(t.Context(), "shop", "new")
	require.NoError(t, err)
	d := had.Definition
	d.Target.URL, d.Target.SecretHeaders = "https://me:hunter2@example.com/x", nil
	c, err := f.store.Create(
		t.Context(),
		[]store.NewTimer{{App: "shop", Name: "old", Definition: d}},
		nil,
	)
	require.NoError(t, err)
	require.NoError(t, c[0].Err)
	f.call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "old", 1), nil).
		into(t, 200, &again)
	require.Equal(t, c[0].Timer.ID, again.ID, "it is that one")
	other := f.call(
		t,
		http.MethodPost,
		"/api/timer/v1/def",
		strings.NewReplacer("NAME", "old", "hunter2", "hunter3").Replace(v1),
		nil,
	)
	require.Equal(t, 409, other.status, "and no other one")
	for _, path := range []string{
		"/api/timer/v1/def?app=shop&id=" + again.ID.String(), "/api/timer/v1/def?app=shop&id=" + made.ID.String(),
		"/api/v2/timers/" + again.ID.String() + "?app=shop", "/api/v2/timers?app=shop",
	} {
		a := f.call(t, http.MethodGet, path, "", nil)
		require.Equal(t, 200, a.status)
		require.NotContains(t, a.body, "hunter2", path)
		require.Contains(t, a.body, "https://example.com/x", path)
	}
	a := f.call(
		t,
		http.MethodPut,
		"/api/v2/timers",
		`{"app":"shop","name":"old","schedule":{"kind":"cron","specs":["0 0 9 * * *"]},`+
			`"target":{"url":"https://example.com/x","secret_headers":{"Authorization":"REDACTED"}}}`,
		nil,
	)
	require.Equal(t, 200, a.status, a.body)
	_, header = f.stored(t, ring, "old")
	require.Equal(t, meHunter2, header, "what is shown as kept is kept")
}
