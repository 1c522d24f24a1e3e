package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := signedIn(t, f, admin)
	const path = "/ui/apps/shop/audit"
	require.Contains(t, p.shown(path), "No changes match.")
	call := func(method, path, body string) {
		a := f.Call(t, method, "/api/v2"+path, body, apitest.Bearer(admin))
		require.Less(t, a.Status, 300, a.Body)
	}
	call(http.MethodPost, "/timers", apitest.V2Body)
	changed := strings.Replace(apitest.V2Body, "0 0 9 * * *", "0 30 9 * * *", 1)
	call(http.MethodPut, "/timers", changed)
	call(http.MethodPut, "/calendars/days?app=shop", `{"excluded_dates":["2030-12-25"]}`)
	call(http.MethodPost, "/apps/shop/freeze", `{"reason":"<script>"}`)
	desk := f.MakeKey(t, admin, "desk", "admin")

	body := p.shown(path)
	require.Equal(t, 4, strings.Count(body, "<tr><th scope=\"row\">"))
	require.Contains(t, body, "&lt;script&gt;")
	require.Contains(t, body, `<code>definition.schedule.specs</code>`)
	require.Contains(t, body, `<del>[&#34;0 0 9 * * *&#34;]</del>`)
	require.Contains(t, body, `<ins>[&#34;0 30 9 * * *&#34;]</ins>`)
	require.Contains(t, body, ">bill</a>")
	for query, want := range map[string]int{
		"kind=timer": 2, "kind=timer&action=update": 1, "timer=bill": 2, "actor=nobody": 0,
		"from=2020-01-01T00:00": 4, "to=2020-01-01T00:00": 0,
	} {
		body = p.shown(path + "?" + query)
		require.Equal(t, want, strings.Count(body, "<tr><th scope=\"row\">"), query)
	}
	require.Contains(t, p.shown(path+"?from=never"), `role="alert"`)
	require.Contains(t, p.shown(path+"?kind="+url.QueryEscape("<script>")), `role="alert"`)

	made := f.MakeKey(t, admin, "", "read")
	body = p.shown("/ui/operations/audit?limit=5")
	require.Contains(t, body, made.ID)
	require.Contains(t, body, `href="/ui/operations" data-key="p" aria-current="page"`)
	other := signedIn(t, f, desk.Key)
	require.Equal(t, http.StatusNotFound, other.get(path).Code)
	require.Equal(t, http.StatusNotFound, other.get("/ui/operations/audit").Code)
	reader := signedIn(t, f, f.MakeKey(t, admin, "shop", "read").Key)
	require.Equal(t, http.StatusForbidden, reader.get(path).Code)
	require.NotContains(t, reader.shown("/ui/apps/shop/timers"), path)
	require.Contains(t, p.shown("/ui/apps/shop/timers"), path)
}

// TestRequestIDOfAPage checks that the audit trail has the request id that the viewer's answer has.
func TestRequestIDOfAPage(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	p := open(t, f, true)
	r := httptest.NewRequestWithContext(
		t.Context(), http.MethodPost, "/ui/apps/shop/app/freeze", http.NoBody)
	r.Header.Set(requests.RequestIDHeader, "order-17")
	w := httptest.NewRecorder()
	requests.IdentifyRequest(p.page).ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	require.Equal(t, "order-17", w.Header().Get(requests.RequestIDHeader))
	require.Contains(t, p.shown("/ui/apps/shop/audit"), "Request order-17<")
}
