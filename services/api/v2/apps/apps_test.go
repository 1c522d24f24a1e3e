package apps_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2Freeze(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	var app map[string]any
	f.Call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).Into(t, 200, &app)
	require.Equal(t, map[string]any{"app": "shop", "frozen": false}, app)
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"incident 4711"}`, nil).
		Into(t, 200, &app)
	require.Equal(t, true, app["frozen"])
	require.Equal(t, "incident 4711", app["reason"])
	require.NotEmpty(t, app["frozen_since"])
	var again map[string]any
	f.Call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).Into(t, 200, &again)
	require.Equal(t, app, again)
	app = nil
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil).Into(t, 200, &app)
	require.Equal(t, map[string]any{"app": "shop", "frozen": false}, app)
	f.Problem(t, 404, http.MethodGet, "/api/v2/apps/nobody", "")
	f.Call(t, http.MethodPut, "/api/v2/apps/early/settings", `{"rate":1}`, nil).
		Into(t, 200, &struct{}{})
	f.Call(t, http.MethodPost, "/api/v2/apps/early/freeze", "", nil).Into(t, 200, &app)
	require.Equal(t, true, app["frozen"], "before its first timer")
	require.Equal(
		t,
		"path.app",
		f.Problem(t, 422, http.MethodPost, "/api/v2/apps/carillon/freeze", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"body.reason",
		f.Problem(t, 422, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"a\u0000"}`).Errors[0].Location,
	)
}

// TestV2DeletesCreateNoApp deletes and freezes in an app that does not exist.
func TestV2DeletesCreateNoApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, dry := range []string{"", "?dry_run=true"} {
		for _, c := range []struct{ method, below string }{
			{http.MethodDelete, "/keys/zzz"},
			{http.MethodDelete, "/signing-keys/12"},
			{http.MethodPost, "/freeze"},
			{http.MethodPost, "/unfreeze"},
		} {
			p := f.Problem(t, 404, c.method, "/api/v2/apps/ghost"+c.below+dry, "")
			if c.method == http.MethodPost {
				require.Contains(t, p.Detail, "check its name")
			}
			require.Equal(t, 404, f.Call(t, http.MethodGet, "/api/v2/apps/ghost", "", nil).Status)
		}
	}
	require.Equal(t, 404, f.Call(t, http.MethodDelete,
		"/api/v2/calendars/days?app=ghost", "", nil).Status)
	require.Equal(t, 404, f.Call(t, http.MethodDelete,
		"/api/v2/apps/ghost?confirm=ghost", "", nil).Status)
	for _, c := range []struct{ method, below, body string }{
		{http.MethodDelete, "/keys/zzz", ""},
		{http.MethodDelete, "/signing-keys/12", ""},
		{http.MethodPost, "/freeze", ""},
		{http.MethodPost, "/import", `{"kind":"calendar","name":"in"}`},
	} {
		var p apitest.V2Problem
		f.Call(t, c.method, "/api/v2/apps/%016"+c.below, c.body,
			map[string]string{"Content-Type": "application/octet-stream"}).Into(t, 422, &p)
		require.Equal(t, "path.app", p.Errors[0].Location, c.below)
	}
	a := f.Call(t, http.MethodGet, "/api/v2/apps", "", nil)
	require.Contains(t, a.Body, `"items":[]`)
}

func TestV2ListApps(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	for _, app := range []string{"shop", "desk", "Büro 1"} {
		path := "/api/v2/apps/" + url.PathEscape(app)
		f.Call(t, http.MethodPut, path+"/settings", `{"rate":1}`,
			apitest.Bearer(admin)).Into(t, 200, &struct{}{})
		f.Call(t, http.MethodPost, path+"/freeze", "",
			apitest.Bearer(admin)).Into(t, 200, &struct{}{})
	}
	list := func(key string, limit int) (names []string) {
		for cursor := ""; ; {
			var page struct {
				Items []struct {
					App    string
					Frozen bool
				}
				NextCursor string `json:"next_cursor"`
			}
			path := fmt.Sprintf("/api/v2/apps?limit=%d&cursor=%s", limit, cursor)
			f.Call(t, http.MethodGet, path, "", apitest.Bearer(key)).Into(t, 200, &page)
			require.LessOrEqual(t, len(page.Items), limit)
			for _, a := range page.Items {
				require.True(t, a.Frozen)
				names = append(names, a.App)
			}
			if cursor = page.NextCursor; cursor == "" {
				return names
			}
		}
	}
	for _, limit := range []int{1, 2, 3, 100} {
		require.Equal(t, []string{"Büro 1", "desk", "shop"}, list(admin, limit))
	}
	own := f.MakeKey(t, admin, "desk", "read").Key
	require.Equal(t, []string{"desk"}, list(own, 1))
	a := f.Call(t, http.MethodGet, "/api/v2/apps?cursor=eA", "", apitest.Bearer(admin))
	require.Equal(t, 422, a.Status)
	require.Contains(t, a.Body, "query.cursor")
}
