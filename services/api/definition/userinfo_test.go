package definition_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const meHunter2 = "Basic bWU6aHVudGVyMg=="

func TestAPasswordInAURLIsASecret(t *testing.T) {
	t.Parallel()
	ring := apitest.Keyring(t)
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = ring })
	body := apitest.WithPassword(t, apitest.V2Body)
	made := f.Call(t, http.MethodPost, "/api/v2/timers", body, nil)
	require.Equal(t, 201, made.Status, made.Body)
	text, header := f.Stored(t, ring, "bill")
	require.NotContains(t, text, "hunter2")
	require.Equal(t, meHunter2, header)
	require.Equal(
		t,
		200,
		f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Status,
		"the same is the same",
	)

	list := f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil)
	for _, a := range []apitest.Answer{made, list} {
		require.NotContains(t, a.Body, "hunter2")
		require.Contains(t, a.Body, `"secret_headers":{"Authorization":"REDACTED"}`)
		require.Contains(t, a.Body, `"url":"https://example.com`)
	}
	// An answer can be sent back as a change, and keeps the secret.
	var shown struct{ Target json.RawMessage }
	made.Into(t, 201, &shown)
	head, _, _ := strings.Cut(apitest.V2Body, `"target":`)
	put := head + `"target":` + string(shown.Target) + `}`
	a := f.Call(t, http.MethodPut, "/api/v2/timers", put, nil)
	require.Equal(t, 200, a.Status, a.Body)
	_, header = f.Stored(t, ring, "bill")
	require.Equal(t, meHunter2, header)

	for what, bad := range map[string]string{
		"Authorization is given besides":     strings.Replace(body, `"headers":{`, `"headers":{"authorization":["x"],`, 1),
		"has a variable":                     strings.Replace(strings.Replace(body, "me:hunter2", "{{label.x}}:hunter2", 1), `"target":{`, `"target":{"templates":true,`, 1),
		"give client_id and secret":          strings.Replace(apitest.V2Body, `"target":{`, `"target":{"oauth2":{"token_url":"https://me:hunter2@id.example.com/","client_id":"a","secret":"b"},`, 1),
		"found one that does not begin with": strings.Replace(body, "https://", "ftp://", 1),
		"has a user or a password that can":  strings.Replace(body, "hunter2", "hunter2 %zz", 1),
	} {
		a := f.Call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			strings.Replace(bad, `"bill"`, `"other"`, 1),
			nil,
		)
		require.Equal(t, 422, a.Status, "%s: %s", what, a.Body)
		require.Contains(t, a.Body, what)
		require.NotContains(t, a.Body, "hunter2")
	}
	keyless := apitest.Setup(t, func(o *api.Options) { o.Secrets = nil })
	a = keyless.Call(t, http.MethodPost, "/api/v2/timers", body, nil)
	require.Equal(t, 422, a.Status)
	require.Contains(t, a.Body, "no encryption keys")
}

// TestV1KeepsAPasswordInAURL checks that v1 callers may use passwords in URLs, and that neither the
// store nor an answer has them.
func TestV1KeepsAPasswordInAURL(t *testing.T) {
	t.Parallel()
	const v1 = `{"app":"shop","name":"NAME","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"https://me:hunter2@example.com/x","method":"POST"}}`
	ring := apitest.Keyring(t)
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = ring })
	var made, again apitest.V1Reply
	f.Call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "new", 1), nil).
		Into(t, 200, &made)
	text, header := f.Stored(t, ring, "new")
	require.NotContains(t, text, "hunter2")
	require.Equal(t, meHunter2, header)
	f.Call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "new", 1), nil).
		Into(t, 200, &again)
	require.Equal(t, made.ID, again.ID)

	// This one was stored before passwords were secrets.
	had, err := f.Store.TimerByName(t.Context(), "shop", "new")
	require.NoError(t, err)
	d := had.Definition
	d.Target.URL, d.Target.SecretHeaders = "https://me:hunter2@example.com/x", nil
	c, err := f.Store.Create(
		t.Context(),
		[]store.NewTimer{{App: "shop", Name: "old", Definition: d}},
		nil,
	)
	require.NoError(t, err)
	require.NoError(t, c[0].Err)
	f.Call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "NAME", "old", 1), nil).
		Into(t, 200, &again)
	require.Equal(t, c[0].Timer.ID, again.ID, "it is that one")
	other := f.Call(
		t,
		http.MethodPost,
		"/api/timer/v1/def",
		strings.NewReplacer("NAME", "old", "hunter2", "hunter3").Replace(v1),
		nil,
	)
	require.Equal(t, 409, other.Status, "and no other one")
	for _, path := range []string{
		"/api/timer/v1/def?app=shop&id=" + again.ID.String(), "/api/timer/v1/def?app=shop&id=" + made.ID.String(),
		"/api/v2/timers/" + again.ID.String() + "?app=shop", "/api/v2/timers?app=shop",
	} {
		a := f.Call(t, http.MethodGet, path, "", nil)
		require.Equal(t, 200, a.Status)
		require.NotContains(t, a.Body, "hunter2", path)
		require.Contains(t, a.Body, "https://example.com/x", path)
	}
	a := f.Call(
		t,
		http.MethodPut,
		"/api/v2/timers",
		`{"app":"shop","name":"old","schedule":{"kind":"cron","specs":["0 0 9 * * *"]},`+
			`"target":{"url":"https://example.com/x","secret_headers":{"Authorization":"REDACTED"}}}`,
		nil,
	)
	require.Equal(t, 200, a.Status, a.Body)
	_, header = f.Stored(t, ring, "old")
	require.Equal(t, meHunter2, header, "what is shown as kept is kept")
}

// TestV1StoresNoPasswordInTheClear checks that v1 refuses a password in a URL where no keys can encrypt
// it, and still answers with a timer that an older release stored with one.
func TestV1StoresNoPasswordInTheClear(t *testing.T) {
	t.Parallel()
	const path, address = "/api/timer/v1/def", "https://me:hunter2@example.com/x"
	body := func(name, address string) string {
		return `{"app":"shop","name":"` + name + `","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"` +
			address + `","method":"POST"}}`
	}
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = nil })
	a := f.Call(t, http.MethodPost, path, body("new", address), nil)
	require.Equal(t, http.StatusBadRequest, a.Status, a.Body)
	require.Contains(t, a.Body, "notifyHTTPParam.url: ")
	require.Contains(t, a.Body, "no encryption keys")
	require.NotContains(t, a.Body, "hunter2")
	_, err := f.Store.TimerByName(t.Context(), "shop", "new")
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))

	f.V1(t, 200, http.MethodPost, path, body("plain", "https://example.com/x"))
	had, err := f.Store.TimerByName(t.Context(), "shop", "plain")
	require.NoError(t, err)
	d := had.Definition
	d.Target.URL = address
	c, err := f.Store.Create(
		t.Context(), []store.NewTimer{{App: "shop", Name: "old", Definition: d}}, nil)
	require.NoError(t, err)
	require.NoError(t, c[0].Err)
	require.Equal(t, c[0].Timer.ID, f.V1(t, 200, http.MethodPost, path, body("old", address)).ID)
	f.V1(t, 409, http.MethodPost, path, body("old", address+"y"))
}
