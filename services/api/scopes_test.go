package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// neededScopes are the scopes of routes that need another than read to read and write to write.
var neededScopes = map[string]string{
	"POST /api/v2/timers/{id}/pause":           "operate",
	"POST /api/v2/timers/{id}/resume":          "operate",
	"POST /api/v2/timers/{id}/run":             "operate",
	"DELETE /api/v2/backfills/{id}":            "operate",
	"POST /api/v2/apps/{app}/redrives":         "operate",
	"POST /api/v2/apps/{app}/jobs":             "operate",
	"POST /api/v2/apps/{app}/jobs/{id}/cancel": "operate",
	"POST /api/v2/schedules/preview":           "read",

	"PUT /api/v2/apps/{app}/settings":             "admin",
	"DELETE /api/v2/apps/{app}":                   "admin",
	"GET /api/v2/apps/{app}/audit":                "admin",
	"GET /api/v2/audit":                           "admin",
	"GET /api/v2/operations/settings":             "admin",
	"GET /api/v2/apps/{app}/keys":                 "admin",
	"POST /api/v2/apps/{app}/keys":                "admin",
	"DELETE /api/v2/apps/{app}/keys/{id}":         "admin",
	"GET /api/v2/keys":                            "admin",
	"POST /api/v2/keys":                           "admin",
	"POST /api/v2/people/end-sessions":            "admin",
	"DELETE /api/v2/keys/{id}":                    "admin",
	"GET /api/v2/apps/{app}/signing-keys":         "admin",
	"POST /api/v2/apps/{app}/signing-keys":        "admin",
	"DELETE /api/v2/apps/{app}/signing-keys/{id}": "admin",
}

// TestEveryRouteNeedsItsScope calls each route by a key of each scope. Dry runs keep what the next
// key asks for.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	made := f.ShopsOwn(t, admin)
	scopes := []string{"read", "operate", "write", "admin"}
	keys := make(map[string]string)
	for _, s := range scopes {
		keys[s] = f.MakeKey(t, admin, "", s).Key
	}
	called := make(map[string]bool)
	for _, c := range everyRoute {
		method, path, _ := strings.Cut(c.route, " ")
		called[c.route] = true
		if strings.HasSuffix(path, "/events") || c.body == apitest.Holidays {
			continue // an answer without an end; the other cases of the route have no such body
		}
		needed := neededScopes[c.route]
		if needed == "" {
			needed = "write"
			if method == http.MethodGet {
				needed = "read"
			}
		}
		to := made.Replace(c.path)
		if method != http.MethodGet && strings.HasPrefix(path, "/api/v2/") &&
			needed != "read" {
			to += map[bool]string{true: "&", false: "?"}[strings.Contains(to, "?")] + "dry_run=true"
		}
		for i, s := range scopes {
			a := f.Call(t, method, to, made.Replace(c.body), apitest.Bearer(keys[s]))
			if i < slices.Index(scopes, needed) {
				require.Equal(t, 403, a.Status, "%s by %s: %s", c.route, s, a.Body)
				require.Contains(t, a.Body, needed, c.route)
				continue
			}
			allowed := a.Status < 300 || a.Status == 409
			require.True(t, allowed, "%s by %s: %d %s", c.route, s, a.Status, a.Body)
		}
	}
	for route := range neededScopes {
		require.True(t, called[route], "no such route: %s", route)
	}
}

// TestJobsNeedTheScopeOfTheirChange checks that an operator cannot delete timers by a job.
func TestJobsNeedTheScopeOfTheirChange(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	f.ShopsOwn(t, admin)
	operator := apitest.Bearer(f.MakeKey(t, admin, "shop", "operate").Key)
	for action, want := range map[string]int{
		"pause": 200, "resume": 200, "run": 200, "relabel": 403, "delete": 403,
	} {
		body := `{"action":"` + action + `","all":true}`
		a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/jobs?dry_run=true", body, operator)
		require.Equal(t, want, a.Status, "%s: %s", action, a.Body)
	}
}
