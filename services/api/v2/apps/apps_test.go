package apps_test

import (
	"net/http"
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
