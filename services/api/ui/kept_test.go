package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// from posts a form as browsers do, which name the page that has it.
func (p *pages) from(
	page, path string,
	form url.Values,
	header ...string,
) *httptest.ResponseRecorder {
	p.t.Helper()
	r := httptest.NewRequestWithContext(
		p.t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", own)
	r.Header.Set("Referer", page)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return p.send(r)
}

// TestRefusedActionsKeepWhatWasEntered checks that an action that is refused leads back to its form.
func TestRefusedActionsKeepWhatWasEntered(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target, `,"status":"active"`))
	path := "/ui/apps/shop/timers/" + made.ID
	w := p.post(path+"/pause", own, url.Values{"until": {"tomorrow"}, "reason": {"a move"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), `role="alert"`)
	require.Contains(t, w.Body.String(), `name="until" value="tomorrow"`)
	require.Contains(t, w.Body.String(), `name="reason" value="a move"`)
	body := p.posted("/ui/apps/shop/jobs", url.Values{
		"action": {"pause"}, "until": {"tomorrow"}, "labels": {"team=pay"},
	})
	require.Contains(t, body, `role="alert"`)
	require.Contains(t, body, `name="until" value="tomorrow"`)
	require.Contains(t, body, "timers?labels=team%3Dpay")

	require.Equal(t, http.StatusSeeOther, p.post("/ui/apps/shop/app/freeze", own, nil).Code)
	w = p.post(path+"/run", own, nil)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "frozen")
	require.Contains(t, w.Body.String(), path+"/edit", "the timer")
	const list = "/ui/apps/shop/timers?labels=a"
	require.Contains(
		t,
		p.from(own+list, "/ui/apps/shop/timers/7/run", nil).Body.String(),
		`href="`+list+`"`,
	)
	require.NotContains(t, p.from("http://evil.example/ui/x", "/ui/apps/shop/timers/7/run", nil).
		Body.String(), "evil")

	form := editor(p.shown(path + "/edit"))
	form.Set("body", "what was typed")
	f.Call(t, http.MethodDelete, apitest.TimerPath(made.ID, ""), "", nil)
	w = p.post(path+"/edit", own, form)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "somebody has deleted it")
	form = editor(w.Body.String())
	require.Equal(t, "what was typed", form.Get("body"))
	require.Contains(t, form.Get("yaml"), "what was typed")
	require.Contains(t, w.Body.String(), " data-unsaved>")
	require.NotContains(t, p.shown("/ui/apps/shop/timers/new"), "data-unsaved")
	require.Equal(t, http.StatusSeeOther, p.post("/ui/apps/shop/timers/new", own, form).Code)
}

// TestSessionEndsWhileEditing checks that the editor of a viewer whose session has ended keeps what
// they typed.
func TestSessionEndsWhileEditing(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := open(t, f, false)
	w := p.post("/ui/sign-in", own, url.Values{"key": {admin}})
	p.cookies = w.Result().Cookies()
	const path = "/ui/apps/shop/timers/new"
	form := editor(p.shown(path))
	form.Set("body", "what was typed")
	for _, revoked := range []bool{false, true} {
		p.cookies = nil
		if revoked { // a session with a key that the API no longer knows
			key := f.MakeKey(t, admin, "shop", "write")
			p.cookies = p.post("/ui/sign-in", own, url.Values{"key": {key.Key}}).Result().Cookies()
			require.Equal(t, http.StatusNoContent, f.Call(t, http.MethodDelete,
				"/api/v2/apps/shop/keys/"+key.ID, "", apitest.Bearer(admin)).Status)
		}
		const signIn = "/ui/sign-in?next=%2Fui%2Fapps%2Fshop%2Ftimers%2Fnew"
		w = p.post(path, own, form)
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.Contains(t, w.Body.String(), "You are signed out.")
		require.Contains(t, w.Body.String(), signIn)
		require.Equal(t, "what was typed", editor(w.Body.String()).Get("body"))
		for part, target := range map[string]string{"/sync": "#signed-out", "/test": "#test-call"} {
			w = p.from("", path+part, form, "Hx-Request", "true", "Hx-Current-Url", own+path)
			require.Equal(t, target, w.Header().Get("Hx-Retarget"), part)
			require.Contains(t, w.Body.String(), signIn)
			require.NotContains(t, w.Body.String(), "Bearer")
		}
		form.Set("do", "test") // without scripts
		w = p.post(path, own, form)
		_, below, found := strings.Cut(w.Body.String(), `id="test-call" `)
		require.True(t, found)
		require.Contains(t, below, signIn, "beside the button")
		require.Contains(t, w.Body.String(), `formaction="`+path+`#test-call"`)
		form.Del("do")
	}
	p.cookies = nil
	w = p.from(own+"/ui/apps/shop/timers/7", "/ui/apps/shop/timers/7/pause", nil)
	require.Equal(
		t,
		"/ui/sign-in?next=%2Fui%2Fapps%2Fshop%2Ftimers%2F7",
		w.Header().Get("Location"),
	)
}
