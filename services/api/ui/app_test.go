package ui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const appPath = "/ui/apps/shop/app"

// signedIn returns the page for a viewer with a key.
func signedIn(t *testing.T, f *apitest.Fixture, key string) *pages {
	t.Helper()
	p := open(t, f, false)
	w := p.post("/ui/sign-in", own, url.Values{"key": {key}})
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	p.cookies = w.Result().Cookies()
	return p
}

func TestFreezeOfAnApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	w := p.post(appPath+"/freeze", own, nil)
	require.Equal(t, http.StatusNotFound, w.Code, "an app that does not exist yet")
	_, err := f.Store.PutSettings(t.Context(), "shop", store.AppSettings{Rate: 1}, 0)
	require.NoError(t, err)
	require.Contains(t, p.shown(appPath), "The app calls its targets.", "an app without timers")
	w = p.post(appPath+"/freeze", own, url.Values{"reason": {"<script>"}})
	require.Equal(t, appPath+"?did=freeze", w.Header().Get("Location"))
	body := p.followed(w).Body.String()
	require.Contains(t, body, "The app is frozen.")
	require.Contains(t, body, "&lt;script&gt;")
	w = p.post(appPath+"/freeze", own, url.Values{"reason": {"a\x00"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "<p>reason: ")
	w = p.post(appPath+"/unfreeze", own, nil)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.NotContains(t, p.shown(appPath), "Frozen since")
	require.Equal(t, http.StatusNotFound, p.post(appPath+"/melt", own, nil).Code)
}

// TestPagesOfAFrozenApp checks that no page looks as if the app called its targets.
func TestPagesOfAFrozenApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made, _ := f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	const banner = `<div id="frozen" class="refused" role="status">`
	const running = "<button>Run now</button>"
	timerPath := "/ui/apps/shop/timers/" + made.ID
	paths := []string{
		timerPath, "/ui/apps/shop/timers", "/ui/apps/shop/fires", "/ui/apps/shop/overview",
		"/ui/apps/shop/dead-letters",
	}
	for _, path := range paths {
		require.NotContains(t, p.shown(path), banner, path)
	}
	require.Contains(t, p.shown(timerPath), running)
	w := p.post(appPath+"/freeze", own, url.Values{"reason": {"a <b>move"}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	for _, path := range paths {
		body := p.shown(path)
		require.Contains(t, body, banner, path)
		require.Contains(t, body, "nothing is called")
		require.Contains(t, body, "a &lt;b&gt;move")
	}
	require.NotContains(t, p.shown(timerPath), running)
	require.Contains(t, p.shown(timerPath), `<button disabled aria-describedby="frozen">Run now<`)
	require.Contains(t, p.shown("/ui/apps/shop/timers"), `<option value="run" disabled>`)
}

// TestAppThatDoesNotExist checks that a mistyped name does not look like an app that is well.
func TestAppThatDoesNotExist(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	const missing = "There is no app shpo yet: an app begins with"
	for _, page := range []string{
		"overview", "timers", "fires", "dead-letters", "calendars", "app", "audit", "jobs", "timers/new",
	} {
		require.Contains(t, p.shown("/ui/apps/shpo/"+page), missing, page)
	}
	body := p.shown("/ui/apps/shpo/app")
	require.NotContains(t, body, "The app calls its targets.")
	require.NotContains(t, body, "Delete the app")
	require.NotContains(t, p.shown("/ui/apps/shpo/overview/now"), missing, "a part of the page")
	f.Call(t, http.MethodPut, "/api/v2/calendars/days?app=shpo", `{}`, nil)
	require.NotContains(t, p.shown("/ui/apps/shpo/overview"), missing)

	guarded, admin := apitest.Guarded(t)
	key := guarded.MakeKey(t, admin, "shop", "read")
	w := signedIn(t, guarded, key.Key).get("/ui/apps/shpo/overview")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.NotContains(t, w.Body.String(), missing, "what the viewer may not see")
}

func TestLimitsOfAnApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Active(t, "often", `{"kind":"cron","specs":["* * * * * *"]}`)
	p := open(t, f, true)
	body := p.shown(appPath)
	require.Contains(t, body, "<td>no limit</td><td>0.00</td>")
	require.Regexp(t, `<td>(≈ )?1\.00 · <time`, body, "planned: one each second")

	set := url.Values{
		"rate": {"2.5"}, "burst": {""}, "concurrent": {"7"}, "version": {"0"},
		"allow": {"10.0.0.0/8:8080\r\n\r\n*.shop.example"},
	}
	w := p.post(appPath+"/settings", own, set)
	require.Equal(t, appPath+"?did=settings", w.Header().Get("Location"), "%s", w.Body)
	body = p.shown(appPath)
	require.Contains(t, body, `name="rate" value="2.5"`)
	require.Contains(t, body, `name="burst" value=""`)
	require.Contains(t, body, `name="concurrent" value="7"`)
	require.Contains(t, body, "10.0.0.0/8:8080\n*.shop.example</textarea>")

	// Two viewers opened version 1. The second sees what the first has saved, keeps what it
	// entered, and may save that.
	set.Set("version", "1")
	set.Set("concurrent", "8")
	require.Equal(t, http.StatusSeeOther, p.post(appPath+"/settings", own, set).Code)
	set.Set("concurrent", "7")
	set.Set("rate", "9")
	w = p.post(appPath+"/settings", own, set)
	require.Equal(t, http.StatusConflict, w.Code)
	body = w.Body.String()
	require.Contains(t, body, "Somebody changed the settings")
	require.Contains(t, body, "<dd>8</dd>")
	require.Contains(t, body, `name="rate" value="9"`)
	require.Contains(t, body, `name="version" value="2"`)
	set.Set("version", "2")
	require.Equal(t, http.StatusSeeOther, p.post(appPath+"/settings", own, set).Code)

	for field, value := range map[string]string{"rate": "many", "burst": "1.5", "concurrent": "-1"} {
		bad := url.Values{"rate": {"1"}, "version": {"3"}, field: {value}}
		w = p.post(appPath+"/settings", own, bad)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, field)
		require.Regexp(t, `<p>`+field+`[][0-9]*: `, w.Body.String())
		require.Contains(t, w.Body.String(), `name="`+field+`" value="`+value+`"`)
	}
	require.Contains(t, p.shown(appPath), `name="rate" value="9"`)
}

var code = regexp.MustCompile(`<code>([^<]+)</code>`)

func TestKeysOfAnApp(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := signedIn(t, f, admin)
	body := p.posted(appPath+"/keys", url.Values{"name": {"<b>"}, "scope": {"read"}})
	require.Contains(t, body, "only this once")
	secret := code.FindStringSubmatch(body)[1]
	require.True(t, strings.HasPrefix(secret, "crl_"))
	body = p.shown(appPath)
	require.Contains(t, body, "&lt;b&gt;")
	require.NotContains(t, body, secret)
	id := regexp.MustCompile(`/app/keys/([^/]+)/revoke`).FindStringSubmatch(body)[1]

	reader := signedIn(t, f, secret)
	body = reader.shown(appPath)
	require.Contains(t, body, "A key of scope admin may change")
	require.NotContains(t, body, "/app/keys")
	require.NotContains(t, body, "/app/settings")
	require.NotContains(t, body, "/app/freeze")
	w := reader.post(appPath+"/settings", own, url.Values{"rate": {"1"}})
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Equal(t, http.StatusNotFound, reader.get("/ui/apps/desk/app").Code)

	require.Equal(t, http.StatusSeeOther, p.post(appPath+"/keys/"+id+"/revoke", own, nil).Code)
	require.Equal(t, http.StatusSeeOther, reader.get(appPath).Code, "to sign in")
	w = p.post(appPath+"/keys", own, url.Values{"name": {""}, "scope": {"read"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "<p>name: ")
}

// TestMadeKeyIsShownOnce checks that a browser that reloads the page of a new key makes no other one,
// and that the page shows the key no second time.
func TestMadeKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := signedIn(t, f, admin)
	w := p.post(appPath+"/keys", own, url.Values{"name": {"robot"}, "scope": {"read"}})
	const page = appPath + "/made-key"
	require.Equal(t, page, w.Header().Get("Location"))
	require.NotContains(t, w.Result().Cookies()[0].Value, "crl_")
	w = p.followed(w)
	require.Contains(t, w.Body.String(), "crl_")
	require.Equal(t, "carillon_made_key", w.Result().Cookies()[0].Name)
	require.Negative(t, w.Result().Cookies()[0].MaxAge, "the browser forgets it")
	require.Equal(t, appPath, p.get(page).Header().Get("Location"))
	require.Equal(t, 1, strings.Count(p.shown(appPath), ">robot<"))
}

func TestSigningKeysOfAnApp(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t), true)
	body := p.posted(appPath+"/signing-keys", url.Values{"kind": {"hmac"}})
	secret := code.FindStringSubmatch(body)[1]
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	body = p.posted(appPath+"/signing-keys", url.Values{"kind": {"ed25519"}})
	require.Contains(t, body, "The private key is shown to nobody.")
	require.Contains(t, body, "<code>whpk_")
	body = p.shown(appPath)
	require.NotContains(t, body, secret)
	retire := regexp.MustCompile(appPath+`/signing-keys/\d+/retire`).FindAllString(body, -1)
	require.Len(t, retire, 2)
	for _, path := range retire {
		require.Equal(t, http.StatusSeeOther, p.post(path, own, nil).Code)
	}
	require.Contains(t, p.shown(appPath), "Callbacks of this app are not signed.")

	none := open(t, apitest.Setup(t, func(o *api.Options) { o.Secrets = nil }), true)
	w := none.post(appPath+"/signing-keys", own, url.Values{"kind": {"hmac"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), `role="alert"`)
}

func TestDeleteAnApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	p := open(t, f, true)
	w := p.post(appPath+"/delete", own, url.Values{"confirm": {"shopp"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "<details open>")
	w = p.post(appPath+"/delete", own, url.Values{"confirm": {"shop"}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Contains(t, p.shown(w.Header().Get("Location")), "Delete the app")
	require.Contains(t, p.shown(appPath), "The app is being deleted.")
}
