package api_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// anotherApps is a request about a resource of the app shop. Text in <> is a placeholder.
type anotherApps struct {
	route, path, body string
	// identifies the resource by an id, which is also not found under the caller's own app
	byID bool
}

// everyRoute has a case for every route; those that delete something come last.
var everyRoute = []anotherApps{
	{route: "GET /api/v2/timers", path: "/api/v2/timers?app=shop"},
	{route: "POST /api/v2/timers", path: "/api/v2/timers", body: apitest.V2Body},
	{
		route: "POST /api/v2/timers:batch",
		path:  "/api/v2/timers:batch",
		body:  `{"items":[` + apitest.V2Body + `]}`,
	},
	{route: "POST /api/v2/timers:test", path: "/api/v2/timers:test", body: apitest.V2Body},
	{route: "PUT /api/v2/timers", path: "/api/v2/timers", body: apitest.V2Body},
	{route: "GET /api/v2/timers/{id}", path: "/api/v2/timers/<timer>?app=shop", byID: true},
	{
		route: "PATCH /api/v2/timers/{id}",
		path:  "/api/v2/timers/<timer>?app=shop",
		body:  `{"labels":{"a":"b"}}`,
		byID:  true,
	},
	{
		route: "POST /api/v2/timers/{id}/pause",
		path:  "/api/v2/timers/<timer>/pause?app=shop",
		byID:  true,
	},
	{
		route: "POST /api/v2/timers/{id}/resume",
		path:  "/api/v2/timers/<timer>/resume?app=shop",
		byID:  true,
	},
	{
		route: "POST /api/v2/timers/{id}/run",
		path:  "/api/v2/timers/<timer>/run?app=shop",
		byID:  true,
	},
	{
		route: "POST /api/v2/timers/{id}/reschedule",
		path:  "/api/v2/timers/<timer>/reschedule?app=shop",
		body:  `{"delay":"1h"}`,
		byID:  true,
	},
	{
		route: "GET /api/v2/timers/{id}/fires",
		path:  "/api/v2/timers/<timer>/fires?app=shop",
		byID:  true,
	},
	{
		route: "GET /api/v2/timers/{id}/explain",
		path:  "/api/v2/timers/<timer>/explain?app=shop",
		byID:  true,
	},
	{
		route: "POST /api/v2/timers/{id}/backfills",
		path:  "/api/v2/timers/<timer>/backfills?app=shop",
		body:  `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:10Z"}`,
		byID:  true,
	},
	{
		route: "GET /api/v2/backfills/{id}",
		path:  "/api/v2/backfills/<backfill>?app=shop",
		byID:  true,
	},
	{
		route: "DELETE /api/v2/backfills/{id}",
		path:  "/api/v2/backfills/<backfill>?app=shop",
		byID:  true,
	},
	{route: "GET /api/v2/fires/{id}", path: "/api/v2/fires/<fire>?app=shop", byID: true},
	{route: "GET /api/v2/apps/{app}/dead-letters", path: "/api/v2/apps/shop/dead-letters"},
	{route: "GET /api/v2/apps/{app}/fires", path: "/api/v2/apps/shop/fires"},
	{route: "GET /api/v2/apps/{app}/fires", path: "/api/v2/apps/shop/fires?timer=<timer>"},
	{route: "GET /api/v2/apps/{app}/stats", path: "/api/v2/apps/shop/stats"},
	{route: "GET /api/v2/apps/{app}/upcoming", path: "/api/v2/apps/shop/upcoming"},
	{route: "GET /api/v2/apps/{app}/events", path: "/api/v2/apps/shop/events"},
	{
		route: "POST /api/v2/apps/{app}/redrives",
		path:  "/api/v2/apps/shop/redrives",
		body:  `{"dry_run":true}`,
	},
	{
		route: "POST /api/v2/apps/{app}/redrives",
		path:  "/api/v2/apps/shop/redrives",
		body:  `{"dry_run":true,"timer":"<timer>"}`,
	},
	{route: "GET /api/v2/apps/{app}/settings", path: "/api/v2/apps/shop/settings"},
	{
		route: "PUT /api/v2/apps/{app}/settings",
		path:  "/api/v2/apps/shop/settings",
		body:  `{"rate":7}`,
	},
	{route: "GET /api/v2/apps/{app}/signing-keys", path: "/api/v2/apps/shop/signing-keys"},
	{
		route: "POST /api/v2/apps/{app}/signing-keys",
		path:  "/api/v2/apps/shop/signing-keys",
		body:  `{}`,
	},
	{
		route: "DELETE /api/v2/apps/{app}/signing-keys/{id}",
		path:  "/api/v2/apps/shop/signing-keys/<signing>",
		byID:  true,
	},
	{route: "GET /api/v2/apps/{app}/audit", path: "/api/v2/apps/shop/audit"},
	{route: "GET /api/v2/audit", path: "/api/v2/audit"},
	{route: "GET /api/v2/apps/{app}/keys", path: "/api/v2/apps/shop/keys"},
	{
		route: "POST /api/v2/apps/{app}/keys",
		path:  "/api/v2/apps/shop/keys",
		body:  `{"name":"x","scope":"read"}`,
	},
	{
		route: "DELETE /api/v2/apps/{app}/keys/{id}",
		path:  "/api/v2/apps/shop/keys/<key>",
		byID:  true,
	},
	{route: "GET /api/v2/keys", path: "/api/v2/keys"},
	{route: "POST /api/v2/keys", path: "/api/v2/keys", body: `{"name":"x","scope":"read"}`},
	{route: "DELETE /api/v2/keys/{id}", path: "/api/v2/keys/<admin>"},
	{
		route: "POST /api/v2/people/end-sessions",
		path:  "/api/v2/people/end-sessions",
		body:  `{"subject":"ada"}`,
	},
	{route: "GET /api/v2/operations", path: "/api/v2/operations"},
	{route: "GET /api/v2/operations/settings", path: "/api/v2/operations/settings"},
	{route: "GET /api/v2/apps/{app}", path: "/api/v2/apps/shop"},
	{route: "POST /api/v2/apps/{app}/freeze", path: "/api/v2/apps/shop/freeze"},
	{route: "POST /api/v2/apps/{app}/unfreeze", path: "/api/v2/apps/shop/unfreeze"},
	{route: "GET /api/v2/calendars", path: "/api/v2/calendars?app=shop"},
	{
		route: "PUT /api/v2/calendars/{name}",
		path:  "/api/v2/calendars/days?app=shop",
		body:  `{"time_zone":"UTC"}`,
	},
	{
		route: "GET /api/v2/calendars/{name}/timers",
		path:  "/api/v2/calendars/days/timers?app=shop",
		byID:  true,
	},
	{route: "GET /api/v2/calendars/{name}", path: "/api/v2/calendars/days?app=shop", byID: true},
	{
		route: "POST /api/v2/calendars/{name}/import",
		path:  "/api/v2/calendars/days/import?app=shop",
		body:  apitest.Holidays,
	},
	{route: "DELETE /api/v2/calendars/{name}", path: "/api/v2/calendars/days?app=shop", byID: true},
	{
		route: "POST /api/v2/schedules/preview",
		path:  "/api/v2/schedules/preview",
		body:  `{"app":"shop","schedule":{"kind":"cron","specs":["@daily"]}}`,
	},
	{
		route: "POST /api/v2/schedules/preview",
		path:  "/api/v2/schedules/preview",
		body:  `{"app":"shop","timer_id":"<timer>","schedule":{"kind":"cron","specs":["@daily"]}}`,
	},

	{route: "GET /api/timer/v1/def", path: "/api/timer/v1/def?app=shop&id=<timer>", byID: true},
	{route: "POST /api/timer/v1/def", path: "/api/timer/v1/def", body: apitest.V1Body},
	{
		route: "POST /api/timer/v1/enable",
		path:  "/api/timer/v1/enable",
		body:  `{"id":<timer>,"app":"shop"}`,
		byID:  true,
	},
	{
		route: "POST /api/timer/v1/unable",
		path:  "/api/timer/v1/unable",
		body:  `{"id":<timer>,"app":"shop"}`,
		byID:  true,
	},

	{
		route: "DELETE /api/timer/v1/def",
		path:  "/api/timer/v1/def",
		body:  `{"id":<other>,"app":"shop"}`,
		byID:  true,
	},
	{route: "DELETE /api/v2/timers/{id}", path: "/api/v2/timers/<timer>?app=shop", byID: true},
	{route: "DELETE /api/v2/timers", path: "/api/v2/timers?app=shop&name=third", byID: true},
	{
		route: "POST /api/v2/apps/{app}/jobs",
		path:  "/api/v2/apps/shop/jobs",
		body:  `{"action":"pause","all":true}`,
	},
	{route: "GET /api/v2/apps/{app}/export", path: "/api/v2/apps/shop/export"},
	{
		route: "POST /api/v2/apps/{app}/import",
		path:  "/api/v2/apps/shop/import",
		body:  `{"kind":"calendar","name":"x"}`,
	},
	{route: "GET /api/v2/apps/{app}/jobs", path: "/api/v2/apps/shop/jobs"},
	{route: "GET /api/v2/apps/{app}/jobs/{id}", path: "/api/v2/apps/shop/jobs/<job>", byID: true},
	{
		route: "POST /api/v2/apps/{app}/jobs/{id}/cancel",
		path:  "/api/v2/apps/shop/jobs/<job>/cancel",
		byID:  true,
	},
	{route: "DELETE /api/v2/apps/{app}", path: "/api/v2/apps/shop?confirm=shop"},
}

// noAppsOwn are the routes that concern no app, or need no key.
var noAppsOwn = map[string]bool{
	"GET /api/v2/apps":                 true, // has those of the key: TestV2ListApps
	"GET /api/v2/caller":               true, // says which app the key is for
	"POST /api/v2/fires/{id}/complete": true, // authenticated by its token
	"GET /api/v2/openapi.json":         true,
	"GET /api/v2/openapi.yaml":         true,
}

// TestAnotherAppsResourcesAreNotFound requires 404 for every route with another app's key, whatever
// its scope. A new route needs a case here.
func TestAnotherAppsResourcesAreNotFound(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	routes := map[string]bool{}
	require.NoError(
		t,
		chi.Walk(
			f.Api.Handler().(chi.Routes),
			func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
				routes[method+" "+route] = true
				return nil
			},
		),
	)
	cases := map[string]bool{}
	for _, c := range everyRoute {
		require.True(t, routes[c.route], "no such route: %s", c.route)
		cases[c.route] = true
	}
	for route := range routes {
		require.True(t, cases[route] || noAppsOwn[route], "a route without a case: %s", route)
	}

	made := f.ShopsOwn(t, admin)
	desk := apitest.Bearer(f.MakeKey(t, admin, "desk", "admin").Key)
	call := func(c anotherApps, header map[string]string) apitest.Answer {
		h := maps.Clone(header)
		if c.body == apitest.Holidays {
			h["Content-Type"] = "text/calendar"
		}
		method, _, _ := strings.Cut(c.route, " ")
		return f.Call(t, method, made.Replace(c.path), made.Replace(c.body), h)
	}
	for _, c := range everyRoute {
		a := call(c, desk)
		require.Equal(t, 404, a.Status, "%s %s: %s", c.route, c.body, a.Body)
		if c.byID { // under the caller's own app
			own := c
			own.path = strings.NewReplacer("app=shop", "app=desk", "/apps/shop/", "/apps/desk/").
				Replace(c.path)
			own.body = strings.ReplaceAll(c.body, `"shop"`, `"desk"`)
			a = call(own, desk)
			require.Equal(t, 404, a.Status, "%s %s: %s", c.route, own.body, a.Body)
		}
	}
	// With the right key every resource still exists, so it was the key that was refused.
	for _, c := range everyRoute {
		if strings.HasSuffix(c.path, "/events") {
			continue // the answer has no end
		}
		a := call(c, apitest.Bearer(admin))
		require.True(
			t,
			a.Status < 300 || a.Status == 409,
			"%s %s: %d %s",
			c.route,
			c.body,
			a.Status,
			a.Body,
		)
	}
}
