package api_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestTheAPIRefusesCallbacks checks that requests made by timers are refused, whatever their key or
// header.
func TestTheAPIRefusesCallbacks(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Auth.TrustHeader, o.Auth.TrustFrom = "X-App", []netip.Prefix{
			netip.MustParsePrefix("0.0.0.0/0"),
		}
	})
	for path, method := range map[string]string{
		"/api/v2/timers?app=shop": http.MethodGet, "/api/v2/apps/shop/keys": http.MethodPost, "/api/timer/v1/def?app=shop&id=1": http.MethodGet,
		"/api/v2/openapi.json": http.MethodGet, "/nowhere": http.MethodGet, "/api/v2/fires/1-2/complete": http.MethodPost,
	} {
		for name, header := range map[string]map[string]string{
			"a key": {"Authorization": "Bearer " + admin, "Carillon-Fire-Id": "1-2"}, "a gateway's word": {"X-App": "admin:shop", "Carillon-Fire-Id": ""},
			"a token": {"Authorization": "Bearer " + admin, "Carillon-Token-Request": "1"},
		} {
			a := f.Call(t, method, path, `{"name":"x","scope":"admin"}`, header)
			require.Equal(t, http.StatusForbidden, a.Status, name+path)
			require.Contains(t, a.Body, "may not call Carillon itself")
		}
	}
	var keys struct{ Items []any }
	f.Call(t, http.MethodGet, "/api/v2/apps/shop/keys", "", apitest.Bearer(admin)).
		Into(t, 200, &keys)
	require.Empty(t, keys.Items)
}

// TestTheReservedHeaderIsRefusedByBothVersions covers v1 too, because it has its own checks.
func TestTheReservedHeaderIsRefusedByBothVersions(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.ReservedHeader = "X-App" })
	a := f.Call(
		t,
		http.MethodPost,
		"/api/timer/v1/def",
		`{"app":"shop","name":"a","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"http://example.com/","method":"POST","header":{"x-app":["admin:desk"]}}}`,
		nil,
	)
	require.Equal(t, http.StatusBadRequest, a.Status)
	require.Contains(
		t,
		a.Body,
		"notifyHTTPParam.header.x-app: expected another header, found the one by which a gateway says who calls",
	)
	a = f.Call(
		t,
		http.MethodPost,
		"/api/v2/timers",
		`{"app":"shop","name":"b","schedule":{"kind":"delay","delay":"1h"},"target":{"url":"http://example.com/","secret_headers":{"x_app":"admin:desk"}}}`,
		nil,
	)
	require.Equal(t, http.StatusUnprocessableEntity, a.Status)
	require.Contains(t, a.Body, "by which a gateway says who calls")
}
