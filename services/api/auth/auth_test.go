package auth_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestKeysWithScopes(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	keys := map[string]string{"none": "", "deployment": admin}
	for _, scope := range []string{"read", "write", "admin"} {
		keys[scope] = f.MakeKey(t, admin, "shop", scope).Key
	}
	keys["desk"] = f.MakeKey(t, admin, "desk", "admin").Key
	f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, apitest.Bearer(admin)).
		Into(t, 201, &struct{}{})

	type want map[string]int // by key; the default is "read"
	all := func(read, write, adm int) want {
		return want{
			"none":       401,
			"read":       read,
			"write":      write,
			"admin":      adm,
			"desk":       404,
			"deployment": adm,
		}
	}
	for _, c := range []struct {
		method, path, body string
		want               want
	}{
		{"GET", "/api/v2/timers?app=shop", "", all(200, 200, 200)},
		{"GET", "/api/v2/timers/1?app=shop", "", all(404, 404, 404)},
		{"GET", "/api/v2/apps/shop", "", all(200, 200, 200)},
		{"GET", "/api/v2/apps/shop/settings", "", all(200, 200, 200)},
		{"POST", "/api/v2/timers", apitest.V2Body, all(403, 200, 200)},
		{"PUT", "/api/v2/timers", apitest.V2Body, all(403, 200, 200)},
		{"DELETE", "/api/v2/timers/1?app=shop", "", all(403, 404, 404)},
		{"POST", "/api/v2/apps/shop/freeze", "", all(403, 200, 200)},
		{"POST", "/api/v2/apps/shop/unfreeze", "", all(403, 200, 200)},
		{"POST", "/api/v2/apps/shop/redrives", `{"dry_run":true}`, all(403, 200, 200)},
		{"PUT", "/api/v2/apps/shop/settings", `{"rate":10}`, all(403, 403, 200)},
		{"GET", "/api/v2/apps/shop/signing-keys", "", all(403, 403, 200)},
		{"DELETE", "/api/v2/apps/shop/signing-keys/1", "", all(403, 403, 404)},
		{"GET", "/api/v2/apps/shop/keys", "", all(403, 403, 200)},
		{"GET", "/api/v2/apps/shop/audit", "", all(403, 403, 200)},
		{"GET", "/api/v2/audit", "", want{"none": 401, "read": 403, "write": 403, "admin": 404, "desk": 404, "deployment": 200}},
		{"DELETE", "/api/v2/apps/shop/keys/abc", "", all(403, 403, 404)},
		{"GET", "/api/v2/keys", "", want{"none": 401, "read": 403, "write": 403, "admin": 404, "desk": 404, "deployment": 200}},
		{"GET", "/api/timer/v1/def?app=shop&id=1", "", all(404, 404, 404)},
		{"POST", "/api/timer/v1/def", strings.Replace(apitest.V1Body, `"bill"`, `"v1"`, 1), all(403, 200, 200)},
		{"POST", "/api/v2/schedules/preview", `{"schedule":{"kind":"delay","delay":"1s"}}`, want{"none": 401, "read": 200, "write": 200, "admin": 200, "desk": 200, "deployment": 200}},
		{"GET", "/api/v2/openapi.yaml", "", want{"none": 200, "read": 200, "write": 200, "admin": 200, "desk": 200, "deployment": 200}},
	} {
		for who, key := range keys {
			h := apitest.Bearer(key)
			if key == "" {
				h = nil
			}
			a := f.Call(t, c.method, c.path, c.body, h)
			require.Equal(
				t,
				c.want[who],
				a.Status,
				"%s %s by %s: %s",
				c.method,
				c.path,
				who,
				a.Body,
			)
			if a.Status == 401 {
				require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
			}
		}
	}
}

// TestAnotherAppIsNotFound checks that another app's resources look like missing ones.
func TestAnotherAppIsNotFound(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	var made apitest.V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, apitest.Bearer(admin)).
		Into(t, 201, &made)
	desk := apitest.Bearer(f.MakeKey(t, admin, "desk", "admin").Key)
	for _, path := range []string{"/api/v2/timers/%s?app=shop", "/api/v2/timers?app=shop", "/api/v2/fires/%s-1?app=shop", "/api/v2/apps/shop", "/api/v2/apps/shop/settings"} {
		there := strings.ReplaceAll(path, "%s", made.ID)
		nowhere := strings.NewReplacer("%s", "4711", "shop", "nobody").Replace(path)
		a, b := f.Call(
			t,
			http.MethodGet,
			there,
			"",
			desk,
		), f.Call(
			t,
			http.MethodGet,
			nowhere,
			"",
			desk,
		)
		require.Equal(t, 404, a.Status)
		require.Equal(t, strings.ReplaceAll(a.Body, "shop", "nobody"), b.Body)
	}
	// A timer of another app, requested under the caller's own app.
	require.Equal(
		t,
		404,
		f.Call(t, http.MethodGet, "/api/v2/timers/"+made.ID+"?app=desk", "", desk).Status,
	)
}

func TestKeysAreShownOnceAndRevoked(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	a := f.MakeKey(t, admin, "shop", "write")
	b := f.MakeKey(t, admin, "shop", "write")
	f.Problem(t, 401, http.MethodGet, "/api/v2/apps/shop/keys", "")
	require.Equal(
		t,
		409,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/apps/shop/keys",
			`{"name":"third","scope":"write"}`,
			apitest.Bearer(admin),
		).Status,
		"two live at once",
	)
	list := f.Call(t, http.MethodGet, "/api/v2/apps/shop/keys", "", apitest.Bearer(admin))
	require.Equal(t, 200, list.Status)
	require.Contains(t, list.Body, a.ID)
	for _, k := range []apitest.MadeKey{a, b} {
		require.NotContains(t, list.Body, k.Key)
		require.NotContains(t, list.Body, k.Key[17:])
		require.Equal(
			t,
			200,
			f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", apitest.Bearer(k.Key)).Status,
		)
	}
	require.Equal(
		t,
		404,
		f.Call(
			t,
			http.MethodDelete,
			"/api/v2/apps/desk/keys/"+a.ID,
			"",
			apitest.Bearer(admin),
		).Status,
		"of another app",
	)
	require.Equal(
		t,
		204,
		f.Call(
			t,
			http.MethodDelete,
			"/api/v2/apps/shop/keys/"+a.ID,
			"",
			apitest.Bearer(admin),
		).Status,
	)
	require.Equal(
		t,
		401,
		f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", apitest.Bearer(a.Key)).Status,
		"at once where it was revoked",
	)
	require.NoError(t, f.Store.RevokeAPIKey(t.Context(), "shop", b.ID))
	require.Eventually(t, func() bool {
		return f.Call(
			t,
			http.MethodGet,
			"/api/v2/timers?app=shop",
			"",
			apitest.Bearer(b.Key),
		).Status == 401
	}, 30*time.Second, 20*time.Millisecond, "by another process")

	own := f.MakeKey(t, admin, "", "read")
	require.Equal(
		t,
		200,
		f.Call(t, http.MethodGet, "/api/v2/timers?app=any", "", apitest.Bearer(own.Key)).Status,
		"for every app",
	)
	require.Equal(
		t,
		403,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			apitest.V2Body,
			apitest.Bearer(own.Key),
		).Status,
	)
	require.Equal(
		t,
		204,
		f.Call(t, http.MethodDelete, "/api/v2/keys/"+own.ID, "", apitest.Bearer(admin)).Status,
	)
}

// TestAppAdminMakesKeysOfItsOwnAppOnly checks that an app's admin key manages no other app and not
// the deployment.
func TestAppAdminMakesKeysOfItsOwnAppOnly(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	own := f.MakeKey(t, admin, "shop", "admin").Key
	require.Equal(t, "shop", f.MakeKey(t, own, "shop", "read").App)
	body := `{"name":"x","scope":"admin"}`
	require.Equal(
		t,
		404,
		f.Call(t, http.MethodPost, "/api/v2/apps/desk/keys", body, apitest.Bearer(own)).Status,
	)
	require.Equal(
		t,
		404,
		f.Call(t, http.MethodPost, "/api/v2/keys", body, apitest.Bearer(own)).Status,
	)
}

func TestDeniedCallsAreCountedAndLoggedWithoutTheKey(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	f, admin := apitest.Guarded(
		t,
		func(o *api.Options) { o.Logger, o.Registerer = zerolog.New(&log), reg },
	)
	revoked := f.MakeKey(t, admin, "shop", "read")
	require.Equal(
		t,
		204,
		f.Call(
			t,
			http.MethodDelete,
			"/api/v2/apps/shop/keys/"+revoked.ID,
			"",
			apitest.Bearer(admin),
		).Status,
	)
	unknown := apikey.New()
	forged := apikey.New()
	read := f.MakeKey(t, admin, "shop", "read")
	for _, key := range []string{unknown.Reveal(), revoked.Key, "guess-hunter2", forged.Reveal()[:40]} {
		require.Equal(
			t,
			401,
			f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", apitest.Bearer(key)).Status,
		)
	}
	require.Equal(
		t,
		401,
		f.Call(
			t,
			http.MethodGet,
			"/api/v2/timers?app=shop",
			"",
			map[string]string{"Authorization": "Basic c2hvcDpodW50ZXIy"},
		).Status,
	)
	require.Equal(
		t,
		403,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			apitest.V2Body,
			apitest.Bearer(read.Key),
		).Status,
	)
	require.Equal(
		t,
		404,
		f.Call(t, http.MethodGet, "/api/v2/timers?app=desk", "", apitest.Bearer(read.Key)).Status,
	)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_api_denied_total Requests denied, by reason.
# TYPE carillon_api_denied_total counter
carillon_api_denied_total{reason="app"} 1
carillon_api_denied_total{reason="malformed"} 2
carillon_api_denied_total{reason="no_key"} 1
carillon_api_denied_total{reason="revoked"} 1
carillon_api_denied_total{reason="scope"} 1
carillon_api_denied_total{reason="unknown"} 1
`), "carillon_api_denied_total"))
	require.Equal(
		t,
		404,
		f.Call(
			t,
			http.MethodGet,
			"/api/v2/keys",
			"",
			apitest.Bearer(f.MakeKey(t, admin, "desk", "admin").Key),
		).Status,
	)
	answer := f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", apitest.Bearer(revoked.Key))
	require.Contains(t, answer.Body, "the key was revoked")
	said := log.String()
	for _, reason := range []string{"scope", "app"} {
		require.Contains(t, said, `"reason":"`+reason+`","key_id":"`+read.ID+`"`)
	}
	require.Equal(
		t,
		3,
		strings.Count(said, `"key_id":""`),
		"only where no key was shown, or none that can be one: %s",
		said,
	)
	require.Contains(t, said, `"key_id":"`+unknown.ID()+`"`)
	require.Contains(t, said, `"remote":"192.0.2.1:1234"`)
	for _, secret := range []string{"hunter2", "c2hvcDpodW50ZXIy", unknown.Reveal()[17:], revoked.Key[17:], read.Key[17:], admin[17:], forged.Reveal()[17:40]} {
		require.NotContains(t, said, secret)
	}
}
