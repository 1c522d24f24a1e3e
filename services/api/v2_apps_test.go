package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestV2Freeze(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	var app map[string]any
	f.call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).into(t, 200, &app)
	require.Equal(t, map[string]any{"app": "shop", "frozen": false}, app)
	f.call(t, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"incident 4711"}`, nil).
		into(t, 200, &app)
	require.Equal(t, true, app["frozen"])
	require.Equal(t, "incident 4711", app["reason"])
	require.NotEmpty(t, app["frozen_since"])
	var again map[string]any
	f.call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).into(t, 200, &again)
	require.Equal(t, app, again)
	app = nil
	f.call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil).into(t, 200, &app)
	require.Equal(t, map[string]any{"app": "shop", "frozen": false}, app)
	f.problem(t, 404, http.MethodGet, "/api/v2/apps/nobody", "")
	f.call(t, http.MethodPost, "/api/v2/apps/early/freeze", "", nil).into(t, 200, &app)
	require.Equal(t, true, app["frozen"], "before its first timer")
	require.Equal(
		t,
		"path.app",
		f.problem(t, 422, http.MethodPost, "/api/v2/apps/carillon/freeze", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"body.reason",
		f.problem(t, 422, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"a\u0000"}`).Errors[0].Location,
	)
}
