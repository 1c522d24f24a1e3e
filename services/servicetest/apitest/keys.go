package apitest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
)

// ShopsOwn creates one resource of each kind for shop, and returns a replacer of the placeholders.
func (f *Fixture) ShopsOwn(t *testing.T, admin string) *strings.Replacer {
	t.Helper()
	one := func(method, path, body string) (got struct{ ID string }) {
		a := f.Call(t, method, path, body, Bearer(admin))
		require.Less(t, a.Status, 300, a.Body)
		a.Into(t, a.Status, &got)
		return got
	}
	often := strings.NewReplacer(`0 0 9 * * *`, `* * * * * *`, `{"app"`, `{"status":"active","app"`).
		Replace(V2Body)
	id := one(http.MethodPost, "/api/v2/timers", often).ID
	fire := f.Dispatched.All()[0].FireID.String()
	other := one(
		http.MethodPost,
		"/api/v2/timers",
		strings.Replace(V2Body, `"bill"`, `"second"`, 1),
	).ID
	one(http.MethodPost, "/api/v2/timers", strings.Replace(V2Body, `"bill"`, `"third"`, 1))
	back := one(
		http.MethodPost,
		"/api/v2/timers/"+id+"/backfills?app=shop",
		`{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:10Z"}`,
	).ID
	one(http.MethodPut, "/api/v2/calendars/days?app=shop", `{"time_zone":"UTC"}`)
	return strings.NewReplacer(
		"<timer>",
		id,
		"<other>",
		other,
		"<fire>",
		fire,
		"<backfill>",
		back,
		"<job>",
		one(http.MethodPost, "/api/v2/apps/shop/jobs", `{"action":"run","all":true}`).ID,
		"<signing>",
		one(http.MethodPost, "/api/v2/apps/shop/signing-keys", `{}`).ID,
		"<key>",
		f.MakeKey(t, admin, "shop", "read").ID,
		"<admin>",
		f.MakeKey(t, admin, "", "read").ID,
	)
}

// Bearer returns the header with a key.
func Bearer(key string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + key}
}

// Guarded returns a fixture that requires keys, and an admin key.
func Guarded(t *testing.T, change ...func(*api.Options)) (f *Fixture, admin string) {
	t.Helper()
	k := apikey.New()
	h := k.Hash()
	change = append(
		[]func(*api.Options){func(o *api.Options) { o.Auth = auth.Rules{Admin: &h} }},
		change...)
	return Setup(t, change...), k.Reveal()
}

// MadeKey is an API key that was just created.
type MadeKey struct{ ID, App, Name, Scope, Key string }

// MakeKey creates an API key.
func (f *Fixture) MakeKey(t *testing.T, admin, app, scope string) MadeKey {
	t.Helper()
	path := "/api/v2/apps/" + app + "/keys"
	if app == "" {
		path = "/api/v2/keys"
	}
	var k MadeKey
	f.Call(t, http.MethodPost, path, `{"name":"of a test","scope":"`+scope+`"}`, Bearer(admin)).
		Into(t, 201, &k)
	require.Equal(t, scope, k.Scope)
	return k
}
