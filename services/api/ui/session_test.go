package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestASessionCountsBeforeTheGateway signs in and out where a gateway names the viewer, too.
func TestASessionCountsBeforeTheGateway(t *testing.T) {
	t.Parallel()
	const header = "X-Carillon-App"
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Auth.TrustHeader = header
		// The address of httptest's requests.
		o.Auth.TrustFrom = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	p := open(t, f, false)
	var err error
	p.page, err = ui.New(ui.Options{API: f.Api.Handler(), TrustHeader: header, Now: time.Now})
	require.NoError(t, err)
	send := func(method, path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(
			t.Context(), method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", own)
		r.Header.Set(header, "read:shop")
		return p.send(r)
	}
	const freeze = "/ui/apps/shop/app/freeze"
	require.Equal(t, http.StatusOK, send(http.MethodGet, "/ui/apps/shop/timers", nil).Code)
	require.Equal(t, http.StatusForbidden, send(http.MethodPost, freeze, nil).Code)

	key := f.MakeKey(t, admin, "shop", "admin")
	for _, k := range []string{admin, key.Key} {
		w := send(http.MethodPost, "/ui/sign-in", url.Values{"key": {k}})
		require.Equal(t, http.StatusSeeOther, w.Code)
		p.cookies = w.Result().Cookies()
	}
	require.Equal(t, http.StatusSeeOther, send(http.MethodPost, freeze, nil).Code)
	trail := f.Call(t, http.MethodGet, "/api/v2/apps/shop/audit", "", apitest.Bearer(admin)).Body
	require.Contains(t, trail, key.ID, "it is the key that has done it")
	require.NotContains(t, trail, "gateway")

	w := f.Call(t, http.MethodDelete, "/api/v2/apps/shop/keys/"+key.ID, "", apitest.Bearer(admin))
	require.Equal(t, http.StatusNoContent, w.Status)
	out := send(http.MethodGet, "/ui/apps/shop/timers", nil)
	require.Contains(t, out.Header().Get("Location"), "/ui/sign-in", "its session has ended")
	out = send(http.MethodGet, out.Header().Get("Location"), nil)
	require.Contains(t, out.Body.String(), `action="/ui/sign-out"`)
	out = send(http.MethodPost, "/ui/sign-out", nil)
	require.Equal(t, "/ui/", out.Header().Get("Location"), "the gateway names the viewer")
	p.cookies = nil
	require.Equal(t, http.StatusOK, send(http.MethodGet, "/ui/apps/shop/timers", nil).Code)
}

// TestNextViewerSeesNoAnswers checks that nothing of what a viewer was shown is shown to the browser's
// next one, who signs in after them, or in their place.
func TestNextViewerSeesNoAnswers(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := signedIn(t, f, admin)
	for _, w := range []*httptest.ResponseRecorder{
		p.post("/ui/sign-out", own, nil), p.post("/ui/sign-in", own, url.Values{"key": {admin}}),
	} {
		require.Equal(t, http.StatusSeeOther, w.Code)
		ended := make(map[string]bool)
		for _, c := range w.Result().Cookies() {
			ended[c.Name] = c.MaxAge < 0 && c.Path == "/ui" && c.Value == ""
		}
		for _, name := range []string{
			"carillon_made_key", "carillon_redriven", "carillon_imported", "carillon_did",
		} {
			require.True(t, ended[name], name)
		}
	}
}
