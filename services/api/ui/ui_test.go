package ui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const target = `{"kind":"http","url":"https://example.com/","method":"POST"}`

// pages is the page over an API in this process.
type pages struct {
	t       *testing.T
	page    *ui.Page
	cookies []*http.Cookie
}

func open(t *testing.T, f *apitest.Fixture, keyless bool) *pages {
	t.Helper()
	p, err := ui.New(ui.Options{API: f.Api.Handler(), Keyless: keyless, Now: time.Now})
	require.NoError(t, err)
	return &pages{t: t, page: p}
}

func (p *pages) send(r *http.Request) *httptest.ResponseRecorder {
	for _, c := range p.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	p.page.ServeHTTP(w, r)
	return w
}

func (p *pages) get(path string) *httptest.ResponseRecorder {
	p.t.Helper()
	return p.send(httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, path, http.NoBody))
}

func (p *pages) post(path, origin string, form url.Values) *httptest.ResponseRecorder {
	p.t.Helper()
	r := httptest.NewRequestWithContext(
		p.t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", origin)
	return p.send(r)
}

const own = "http://example.com" // the host of httptest's requests

func TestPagesOfATimer(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	const attack = `<script>alert(1)</script>"'`
	made := f.Create(t, http.StatusCreated, fmt.Sprintf(
		`{"app":"shop","name":%q,"status":"active","labels":{"team":%q},`+
			`"schedule":{"kind":"cron","specs":["30 2 * * *"],"time_zone":"Europe/Berlin"},"target":%s}`,
		attack, attack, target))
	for _, path := range []string{
		"/ui/", "/ui/apps/shop/timers", "/ui/apps/shop/timers?labels=team", "/ui/apps/shop/timers/" + made.ID,
		"/ui/apps/shop/timers/" + made.ID + "?at=2030-01-31T01:30", "/ui/?did=" + url.QueryEscape(attack),
	} {
		w := p.get(path)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		require.NotContains(t, w.Body.String(), "<script>", path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self';")
	}
	require.Contains(t, p.get("/ui/apps/shop/timers/"+made.ID).Body.String(), "every day at 02:30")
	require.Equal(t, http.StatusOK, p.get("/ui/apps/shop/timers?labels=((").Code)
	require.Equal(t, http.StatusNotFound, p.get("/ui/apps/shop/timers/1").Code)
	for _, path := range []string{"/ui/apps/shop/timers/abc", "/ui/apps/shop/fires/abc"} {
		w := p.get(path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), "There is nothing at this address")
	}

	path := "/ui/apps/shop/timers/" + made.ID
	require.Equal(t, http.StatusForbidden, p.post(path+"/pause", "http://evil.example", nil).Code)
	w := p.post(path+"/pause", own, url.Values{"reason": {attack}})
	require.Equal(t, path+"?did=pause", w.Header().Get("Location"), "%s", w.Body)
	require.NotContains(t, p.get(path).Body.String(), "<script>")
	w = p.post("/ui/apps/shop/jobs", own, url.Values{"action": {"resume"}, "status": {"paused"}})
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "1 timer would change")
	w = p.post("/ui/apps/shop/jobs", own, url.Values{
		"action": {
			"relabel",
		},
		"set_labels":    {"tier=a, team=" + attack},
		"remove_labels": {"old,older"},
	})
	require.Contains(t, w.Body.String(), "<code>tier=a</code>")
	require.Contains(t, w.Body.String(), "<code>old</code> <code>older</code>")
	form := p.confirmation(w.Body.String())
	require.Equal(t, "tier=a, team="+attack, form.Get("set_labels"))
	job := p.post("/ui/apps/shop/jobs", own, form).Header().Get("Location")
	require.Contains(t, job, "/ui/apps/shop/jobs/")
	require.Equal(t, job, p.post("/ui/apps/shop/jobs", own, form).Header().Get("Location"),
		"confirmed twice")
	require.Contains(t, p.post("/ui/apps/shop/jobs", own, url.Values{
		"action": {"pause"}, "until": {"soon"},
	}).Body.String(), `role="alert"`)
	require.Equal(t, http.StatusUnprocessableEntity,
		p.post(path+"/pause", own, url.Values{"until": {"soon"}}).Code)
	require.Equal(t, path+"?did=resume", p.post(path+"/resume", own, nil).Header().Get("Location"))
	fire := p.post(path+"/run", own, nil).Header().Get("Location")
	require.Equal(t, http.StatusOK, p.get(fire).Code)
	require.Equal(t, http.StatusSeeOther, p.post(path+"/delete", own, nil).Code)
}

// TestRefreshAfterTheSession checks that a page whose session has ended goes to sign in as a whole.
func TestRefreshAfterTheSession(t *testing.T) {
	t.Parallel()
	f, _ := apitest.Guarded(t)
	p := open(t, f, false)
	r := httptest.NewRequestWithContext(
		t.Context(), http.MethodGet, "/ui/apps/shop/overview/now", http.NoBody)
	r.Header.Set("Hx-Request", "true")
	r.Header.Set("Hx-Current-Url", own+"/ui/apps/shop/overview?x=1")
	w := p.send(r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "/ui/sign-in?next=%2Fui%2Fapps%2Fshop%2Foverview%3Fx%3D1",
		w.Header().Get("Hx-Redirect"))
	require.Empty(t, w.Body.String())
}

// TestButtonOfTheTheme checks that the page has what the button offers where the system is dark.
func TestButtonOfTheTheme(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t), true)
	require.Contains(t, p.shown("/ui/"), `value="dark" data-light="Light">Dark<`)
	p.cookies = []*http.Cookie{{Name: "carillon_theme", Value: "dark"}}
	require.NotContains(t, p.shown("/ui/"), "data-light")
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := open(t, f, false)
	w := p.get("/ui/apps/shop/timers")
	require.Equal(t, "/ui/sign-in?next=%2Fui%2Fapps%2Fshop%2Ftimers", w.Header().Get("Location"))
	w = p.post("/ui/sign-in", own, url.Values{"key": {"hunter2"}})
	require.Equal(t, http.StatusUnauthorized, w.Code)
	for _, next := range []string{"//evil.example", "/ui/../dev/echo", "/ui/%2e%2e//evil.example"} {
		w = p.post("/ui/sign-in", own, url.Values{"key": {admin}, "next": {next}})
		require.Equal(t, "/ui/", w.Header().Get("Location"), next)
	}
	p.cookies = w.Result().Cookies()[:1]
	require.True(t, p.cookies[0].HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, p.cookies[0].SameSite)
	require.NotContains(t, p.cookies[0].Value, admin)
	require.Equal(t, http.StatusOK, p.get("/ui/apps/shop/timers").Code)
	value := []byte(p.cookies[0].Value)
	value[9] ^= 1
	p.cookies[0].Value = string(value)
	require.Equal(t, http.StatusSeeOther, p.get("/ui/apps/shop/timers").Code)
}

// TestLinksSayNothing checks that the author of a link cannot put a message into a page, and that a
// page which is loaded again does not repeat one.
func TestLinksSayNothing(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	const said = `class="did"`
	require.NotContains(t, p.shown("/ui/?did=freeze"), said)
	require.NotContains(t, p.shown("/ui/?did=Call+555"), said)
	w := p.post("/ui/apps/shop/app/freeze", own, nil)
	p.cookies = w.Result().Cookies()
	require.NotContains(t, p.shown("/ui/?did=unfreeze"), said, "what the viewer has not done")
	w = p.get(w.Header().Get("Location"))
	require.Contains(t, w.Body.String(), `<p class="did" role="status">The app is frozen.`)
	require.Equal(t, "carillon_did", w.Result().Cookies()[0].Name)
	require.Negative(t, w.Result().Cookies()[0].MaxAge, "it is said once")
}

// TestShownInstantsAreExplained checks that an instant can be copied from a page into its form.
func TestShownInstantsAreExplained(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h","anchor":"2020-01-31T09:00:00.814Z"}`, target,
		`,"status":"active"`))
	path := "/ui/apps/shop/timers/" + made.ID
	shown := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:00:00\.814 \+00:00`).
		FindString(html.UnescapeString(p.shown(path)))
	require.NotEmpty(t, shown)
	answer := p.shown(path + "?at=" + url.QueryEscape(shown))
	require.Contains(t, answer, `<div class="answer">`)
	require.NotContains(t, answer, "not_in_schedule")
}
