package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func withPage(o *api.Options) { o.Page = true }

// signIn returns the cookie of a viewer who signs in with a key, through a gateway that ends TLS.
func signIn(t *testing.T, f *apitest.Fixture, key string) *http.Cookie {
	t.Helper()
	body := strings.NewReader(url.Values{"key": {key}, "next": {"/ui/apps/shop/timers"}}.Encode())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/sign-in", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-Proto", "https")
	w := httptest.NewRecorder()
	f.Api.Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	require.Equal(t, "/ui/apps/shop/timers", w.Header().Get("Location"))
	require.Equal(t, "carillon_session", w.Result().Cookies()[0].Name)
	return w.Result().Cookies()[0]
}

// TestPageIsServed checks that the page needs no key where the API needs none, and that a session
// of one replica is known to the others.
func TestPageIsServed(t *testing.T) {
	t.Parallel()
	open := apitest.Setup(t, withPage)
	require.Equal(t, http.StatusOK, open.Call(t, http.MethodGet, "/ui/", "", nil).Status)
	a := open.Call(t, http.MethodGet, "/ui", "", nil)
	require.Equal(t, "/ui/", a.Header.Get("Location"))
	a = open.Call(t, http.MethodGet, "/ui/nowhere", "", nil)
	require.Equal(t, http.StatusNotFound, a.Status)
	require.Contains(t, a.Header.Get("Content-Type"), "text/html")

	keys, admin := apitest.Keyring(t), apikey.New()
	hash := admin.Hash()
	replica := func(o *api.Options) {
		o.Page, o.Secrets, o.Auth = true, keys, auth.Rules{Admin: &hash}
	}
	one, other := apitest.Setup(t, replica), apitest.Setup(t, replica)
	a = one.Call(t, http.MethodGet, "/ui/", "", nil)
	require.Equal(t, "/ui/sign-in?next=%2Fui%2F", a.Header.Get("Location"))
	cookie := signIn(t, one, admin.Reveal())
	require.True(t, cookie.Secure)
	viewer := map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}
	require.Equal(t, http.StatusOK, one.Call(t, http.MethodGet, "/ui/", "", viewer).Status)
	require.Equal(t, http.StatusOK, other.Call(t, http.MethodGet, "/ui/", "", viewer).Status)
	require.Equal(t, http.StatusUnauthorized,
		one.Call(t, http.MethodGet, "/api/v2/apps", "", viewer).Status, "the API takes no cookies")
}

// TestPageIsOff checks that nothing is served below /ui where the setting says so.
func TestPageIsOff(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, path := range []string{"/ui", "/ui/", "/ui/static/page.css"} {
		require.Equal(t, http.StatusNotFound, f.Call(t, http.MethodGet, path, "", nil).Status)
	}
}

// TestTimersCannotReachThePage checks that the page refuses callbacks as the API does.
func TestTimersCannotReachThePage(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, withPage)
	a := f.Call(t, http.MethodGet, "/ui/", "", map[string]string{"Carillon-Fire-Id": "1-2"})
	require.Equal(t, http.StatusForbidden, a.Status)
}
