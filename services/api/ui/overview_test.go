package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	p := open(t, e.Fixture, true)
	require.Equal(t, "/ui/apps/shop/overview", p.get("/ui/apps/shop").Header().Get("Location"))
	require.Contains(t, p.shown("/ui/apps/shop/overview"), "0 calls are planned.")

	e.Fail(t, e.Held(t, "shop", "bill", 3), timer.FailureTimeout)
	e.Active(t, "minutely", `{"kind":"cron","specs":["* * * * *"]}`)
	body := p.shown("/ui/apps/shop/overview")
	require.Contains(t, body, "60 calls are planned.")
	require.Contains(t, body, `<li class="failed">failed <strong>3</strong></li>`)
	require.Contains(t, body, `?reason=exhausted">attempts exhausted</a></th><td>3</td>`)
	require.Contains(t, body, ">minutely</a>")
	require.Equal(t, 3, strings.Count(body, `class="chart" data-zone="UTC"`), "as the instants")
	require.Contains(t, body, "Schedulers alive <strong>0</strong>")
	for part, other := range map[string]string{"now": "hour", "hour": "now"} {
		body := p.shown("/ui/apps/shop/overview/" + part)
		require.Contains(t, body, `<div id="`+part+`"`)
		require.NotContains(t, body, `<div id="`+other+`"`)
		require.NotContains(t, body, "<html")
	}
	p.post("/ui/apps/shop/app/freeze", own, url.Values{"reason": {"stock taking"}})
	require.Contains(t, p.shown("/ui/apps/shop/overview"), "stock taking")
}

// TestAppsWithOverdueFires checks that the overview and the page of operators lead to them.
func TestAppsWithOverdueFires(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	p := open(t, e.Fixture, true)
	const caption = "Apps with most overdue fires"
	require.NotContains(t, p.shown("/ui/apps/shop/overview"), caption)
	for app, n := range map[string]int{"shop": 2, "a & b": 3} {
		won := e.Held(t, app, "late", n)
		for i := range won {
			won[i].RunAtMS = time.Now().Add(-time.Hour).UnixMilli()
		}
		_, err := e.Store.Release(t.Context(), e.Session, won, nil)
		require.NoError(t, err)
	}
	for _, path := range []string{"/ui/apps/shop/overview/now", "/ui/operations"} {
		body := p.shown(path)
		require.Contains(t, body, caption)
		require.Contains(t, body, `<th scope="row"><a href="/ui/apps/a%20&amp;%20b/overview">`+
			`a &amp; b</a></th><td>3</td></tr><tr><th scope="row">`+
			`<a href="/ui/apps/shop/overview">shop</a></th><td>2</td>`)
	}
}

func TestFiresOfAnApp(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	p := open(t, e.Fixture, true)
	const path = "/ui/apps/shop/fires"
	require.Contains(t, p.shown(path), "No fires match.")
	e.Fail(t, e.Held(t, "shop", "bill", 120), timer.FailureTimeout)
	body := p.shown(path + "?state=failed&timer=bill")
	require.Contains(t, body, "cursor=")
	require.Contains(t, body, `value="failed" selected`)
	require.Contains(t, p.shown(path+"?state=delivered"), "No fires match.")
	require.Contains(t, p.shown(path+"?min_lateness=soon"), `role="alert"`)
	for _, timer := range []string{"nobody", "7"} {
		body = p.shown(path + "?state=failed&timer=" + timer)
		require.Contains(t, body, "There is no timer of this name.")
		require.Contains(t, body, `name="timer" data-search value="`+timer+`"`, "the form stays")
		require.Contains(t, body, `value="failed" selected`)
	}
}

// TestViewerWithAReadKey checks that a key which may read shows the next instants too.
func TestViewerWithAReadKey(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	made := f.MakeKey(t, admin, "shop", "read")
	body := apitest.TimerWith(
		`{"kind":"cron","specs":["30 2 * * *"]}`,
		target,
		`,"status":"active"`,
	)
	var tm apitest.V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", body, apitest.Bearer(admin)).
		Into(t, http.StatusCreated, &tm)
	p := open(t, f, false)
	w := p.post("/ui/sign-in", own, url.Values{"key": {made.Key}})
	p.cookies = w.Result().Cookies()
	require.Contains(t, p.shown("/ui/"), "/ui/apps/shop/overview")
	body = p.shown("/ui/apps/shop/timers/" + tm.ID)
	require.Contains(t, body, `<ol class="instants"><li>`)
	require.NotContains(t, body, "/pause", "what the viewer may not do")
	require.NotContains(t, p.shown("/ui/apps/shop/timers"), "/jobs")
	require.NotContains(t, p.shown("/ui/apps/shop/overview"), `id="deployment"`)
	require.Equal(t, http.StatusNotFound, p.get("/ui/apps/other/overview").Code)
	require.Equal(t, http.StatusForbidden,
		p.post("/ui/apps/shop/timers/"+tm.ID+"/pause", own, nil).Code)
}
