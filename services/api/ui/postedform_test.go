package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestEditorHoldsLargeDefinitions saves a definition of which the form has more than a request of the
// API may have.
func TestEditorHoldsLargeDefinitions(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Page = true })
	large := strings.Repeat("é", timer.MaxBodyLen/len("é"))
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`,
		strings.TrimSuffix(target, "}")+`,"body":"`+large+`"}`, ""))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(f.Call(t, http.MethodGet, path, "", nil).Body)
	form.Set("labels", "team=pay")
	require.Greater(t, len(form.Encode()), input.MaxRequestBytes)
	for _, part := range []string{"/sync", ""} {
		r := httptest.NewRequestWithContext(
			t.Context(), http.MethodPost, path+part, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", own)
		w := httptest.NewRecorder()
		f.Api.Handler().ServeHTTP(w, r)
		if part == "" {
			require.Equal(t, http.StatusSeeOther, w.Code, "%.2000s", w.Body)
		} else {
			require.Contains(t, editor(w.Body.String()).Get("yaml"), "team: pay")
		}
	}
	now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
	require.NoError(t, err)
	require.Equal(t, large, now.Definition.Target.Body)
	require.Equal(t, "pay", now.Definition.Labels["team"])
}

// TestFormsAreReadToTheirEnd checks that a form which is too large or broken is refused, and not taken
// for one without fields.
func TestFormsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := open(t, f, false)
	const path, too = "/ui/apps/shop/timers/new", "more than the page takes"
	long := func(bytes int) url.Values { return url.Values{"yaml": {strings.Repeat("a", bytes)}} }
	signIn := func(scope string) {
		key := f.MakeKey(t, admin, "shop", scope).Key
		p.cookies = nil
		p.cookies = p.post("/ui/sign-in", own, url.Values{"key": {key}}).Result().Cookies()
	}
	signIn("write")
	for _, part := range []string{"", "/sync", "/test"} {
		w := p.post(path+part, own, long(ui.MaxFormBytes))
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, part)
		require.Contains(t, w.Body.String(), too, part)
		require.NotContains(t, w.Body.String(), "yaml-side", "what was typed stays")
	}
	w := p.post("/ui/apps/shop/app/freeze", own, long(input.MaxRequestBytes))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	r := httptest.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		"/ui/apps/shop/jobs",
		strings.NewReader("action=pause&labels=%zz"),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", own)
	require.Equal(
		t,
		http.StatusBadRequest,
		p.send(r).Code,
		"without its labels it is about all timers",
	)

	signIn("read")
	w = p.post(path+"/sync", own, long(input.MaxRequestBytes))
	require.Equal(t, http.StatusForbidden, w.Code, "only who may write sends so much")
	p.cookies = nil
	w = p.from("", path+"/sync", long(input.MaxRequestBytes), "Hx-Request", "true")
	require.Equal(t, "#signed-out", w.Header().Get("Hx-Retarget"))
	w = p.post(path, own, long(input.MaxRequestBytes))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
}
