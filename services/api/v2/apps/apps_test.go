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

func TestV2ListApps(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	for _, app := range []string{"shop", "desk", "Büro 1"} {
		f.Call(t, http.MethodPost, "/api/v2/apps/"+url.PathEscape(app)+"/freeze", "",
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
