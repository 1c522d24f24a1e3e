package allinone_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestTimersDoNotCallCarillonItself checks that an app cannot escalate its key, or read Carillon's
// ports in excerpts, through a timer that calls Carillon. All rules are open, and every name,
// redirect and header is tried.
func TestTimersDoNotCallCarillonItself(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW_PRIVATE",
		"true",
		"CARILLON_CALLBACK_ALLOW",
		"*:* 127.0.0.1:* localhost:*",
		"CARILLON_TRUST_HEADER",
		"X-Carillon-App",
		"CARILLON_TRUST_FROM",
		"127.0.0.0/8",
	)
	defer d.Stop(t)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/apps/mallory/keys",
		admin,
		`{"name":"m","scope":"write"}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	mallory := made.Key

	seen := make(chan http.Header, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}))
	defer receiver.Close()
	const order = `"method":"POST","headers":{"Content-Type":["application/json"]},"body":"{\"name\":\"mine\",\"scope\":\"admin\"}","redirects":3`
	const trusted = `"method":"POST","headers":{"Content-Type":["application/json"],"X-Carillon-App":["admin:shop"]},"body":"{\"name\":\"mine\",\"scope\":\"admin\"}","redirects":3`
	api, adm := strings.TrimPrefix(
		d.Api,
		"http://127.0.0.1",
	), strings.TrimPrefix(
		d.Admin,
		"http://127.0.0.1",
	)
	for name, target := range map[string]string{
		"trusted header":          `{"url":"` + d.Api + `/api/v2/apps/shop/keys",` + trusted + `}`,
		"trusted, by name":        `{"url":"http://localhost` + api + `/api/v2/apps/shop/keys",` + trusted + `}`,
		"trusted, elsewhere":      `{"url":"` + receiver.URL + `",` + trusted + `}`,
		"trusted, as a secret":    `{"url":"` + receiver.URL + `","secret_headers":{"x-carillon-APP":"admin:shop"}}`,
		"trusted, underscored":    `{"url":"` + receiver.URL + `","headers":{"X_Carillon_App":["admin:shop"]}}`,
		"key of its own":          `{"url":"http://localhost` + api + `/api/v2/timers?app=mallory","method":"GET","secret_headers":{"Authorization":"Bearer ` + mallory + `"}}`,
		"redirect":                `{"url":"` + receiver.URL + `/?to=` + d.Api + `/api/v2/openapi.json",` + order + `}`,
		"redirect, by name":       `{"url":"` + receiver.URL + `/?to=http://localhost` + api + `/api/v2/openapi.json",` + order + `}`,
		"redirect, v1":            `{"url":"` + receiver.URL + `/?to=http://localhost` + api + `/api/timer/v1/def",` + order + `}`,
		"by the echo path":        `{"url":"http://localhost` + api + `/dev/echo/../../api/v2/openapi.json","method":"GET"}`,
		"by the echo path, %":     `{"url":"http://localhost` + api + `/dev/echo%2f..%2f..%2fapi/v2/openapi.json","method":"GET"}`,
		"by Host":                 `{"url":"http://localhost` + api + `/api/v2/openapi.json","method":"GET","headers":{"Host":["example.com"]}}`,
		"profile":                 `{"url":"http://localhost` + adm + `/debug/pprof/heap","method":"GET"}`,
		"profile, mapped":         `{"url":"http://[::ffff:127.0.0.1]` + adm + `/debug/pprof/heap","method":"GET"}`,
		"metrics":                 `{"url":"http://localhost` + adm + `/metrics","method":"GET"}`,
		"metrics, redirect":       `{"url":"` + receiver.URL + `/?to=http://localhost` + adm + `/metrics","method":"GET","redirects":3}`,
		"metrics, 0.0.0.0":        `{"url":"http://0.0.0.0` + adm + `/metrics","method":"GET"}`,
		"metrics, several":        `{"url":"http://0` + adm + `/metrics","method":"GET"}`,
		"redirect, unspecified":   `{"url":"` + receiver.URL + `/?to=http://[::]` + adm + `/metrics","method":"GET","redirects":3}`,
		"token of the admin port": `{"url":"` + receiver.URL + `","oauth2":{"token_url":"http://localhost` + adm + `/metrics","client_id":"x","secret":"y"}}`,
	} {
		status, fire := d.FirstFire(t, mallory, name, target)
		if status == http.StatusUnprocessableEntity {
			continue
		}
		require.Equal(t, http.StatusCreated, status, "%s: %s", name, fire)
		require.Contains(t, fire, `"status":"failed"`, name)
		for _, leak := range []string{"crl_", "openapi", "carillon_", "goroutine", "allinone.test", `"items"`} {
			require.NotContains(t, fire, leak, "%s: of Carillon's answers nothing is seen", name)
		}
	}
	_, keys := d.Do(t, http.MethodGet, "/api/v2/apps/shop/keys", admin, "")
	require.Contains(t, keys, `"items":[]`, "nobody has a key of another app")
	for range len(seen) {
		h := <-seen
		require.Empty(t, h.Values("X-Carillon-App"))
		require.Empty(t, h.Values("X_carillon_app"))
	}
	// Other endpoints are called, and so is the echo endpoint.
	_, fire := d.FirstFire(t, mallory, "receiver", `{"url":"`+receiver.URL+`"}`)
	require.Contains(t, fire, `"status":"delivered"`)
	_, fire = d.FirstFire(t, mallory, "echo", `{"url":"http://localhost`+api+allinone.EchoPath+`"}`)
	require.Contains(t, fire, `"status":"delivered"`, "who makes timers has shown a key")
}

// TestOwnAddressIsRefusedAtOnce checks that a target with Carillon's own address is refused when it
// is written, not by answers that are retried. Timers may call the echo endpoint, by its path alone.
func TestOwnAddressIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	for _, at := range []string{d.Api, d.Admin} {
		byName := strings.Replace(at, "127.0.0.1", "LocalHost", 1)
		for _, url := range []string{at, at + "/api/v2/apps", at + "/dev/echo/../../api/v2/apps", byName + "/api/v2/apps"} {
			status, answer := d.FirstFire(t, "", url, `{"url":"`+url+`"}`)
			require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", url, answer)
			require.Contains(t, answer, "Carillon's own")
		}
	}
	status, _ := d.FirstFire(t, "", "echo", `{"url":"`+d.Api+allinone.EchoPath+`"}`)
	require.Equal(t, http.StatusCreated, status)
}

// TestLoopbackIsOpenOnlyWithoutKeys checks that timers reach loopback only where their creator
// could do the same without a key.
func TestLoopbackIsOpenOnlyWithoutKeys(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	for name, c := range map[string]struct {
		env  []string
		key  string
		open bool
		echo bool
	}{
		"keyless":                  {nil, "", true, true},
		"keyless by word":          {[]string{"CARILLON_AUTH", "off"}, "", true, true},
		"keyless and closed":       {[]string{"CARILLON_CALLBACK_ALLOW_PRIVATE", "false"}, "", false, false},
		"with keys":                {[]string{"CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin}, admin, false, true},
		"with keys and closed":     {[]string{"CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin, "CARILLON_CALLBACK_ALLOW_PRIVATE", "false"}, admin, false, false},
		"with keys and opened":     {[]string{"CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin, "CARILLON_CALLBACK_ALLOW_PRIVATE", "true"}, admin, true, true},
		"elsewhere":                {[]string{"CARILLON_HTTP_ADDR", "0.0.0.0:0", "CARILLON_ADMIN_KEY", admin}, admin, false, true},
		"elsewhere, keys given up": {[]string{"CARILLON_HTTP_ADDR", "0.0.0.0:0", "CARILLON_AUTH", "off"}, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := devtest.Start(t, t.TempDir(), c.env...)
			defer d.Stop(t)
			d.Api = strings.Replace(
				strings.Replace(d.Api, "[::]", "127.0.0.1", 1),
				"0.0.0.0",
				"127.0.0.1",
				1,
			)
			for url, want := range map[string]bool{receiver.URL: c.open, d.Api + allinone.EchoPath: c.echo} {
				byName := strings.Replace(url, "127.0.0.1", "localhost", 1)
				status, fire := d.FirstFire(t, c.key, "by address "+url, `{"url":"`+url+`"}`)
				require.Equal(t, want, status == http.StatusCreated, fire)
				_, fire = d.FirstFire(t, c.key, "by name "+url, `{"url":"`+byName+`"}`)
				require.Equal(t, want, strings.Contains(fire, `"status":"delivered"`), fire)
			}
			code, _ := d.Do(t, http.MethodPost, allinone.EchoPath, "", "x")
			require.Equal(
				t,
				c.key == "",
				code == http.StatusNoContent,
				"people call it with a key, if keys are required",
			)
			require.True(t, code == http.StatusNoContent || code == http.StatusUnauthorized, code)
			if c.key != "" {
				code, _ = d.Do(t, http.MethodPost, allinone.EchoPath, c.key, "x")
				require.Equal(t, http.StatusNoContent, code)
			}
			require.Equal(
				t,
				c.key != "",
				strings.Contains(d.Out.String(), `-H "Authorization: Bearer $CARILLON_ADMIN_KEY" `),
				d.Out.String(),
			)
			require.Equal(
				t,
				!c.echo,
				strings.Contains(d.Out.String(), "must be public"),
				d.Out.String(),
			)
		})
	}
}
