package ui_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/v2/operations"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	h := health.New(0)
	h.Set("store", func(context.Context) error { return nil })
	h.SetOptional(
		"secrets",
		func(context.Context) error { return errors.New("<script> is missing") },
	)
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Health = h
		o.Settings = []operations.Setting{
			{Name: "retention", Value: "168h0m0s", Source: "<script>"},
		}
	})
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: 7, Kind: store.ExecutorSession, Name: "<script>"},
		),
	)
	_, err := f.Store.RenewSession(
		t.Context(), 7, store.Load{InflightFull: true, OldestTaskMS: 1250})
	require.NoError(t, err)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: 8, Kind: store.SchedulerSession, Name: "old"},
		),
	)
	require.NoError(t, f.Store.CloseSession(t.Context(), 8))

	p := signedIn(t, f, admin)
	body := p.shown("/ui/operations")
	require.Contains(t, body, "&lt;script&gt;")
	require.Contains(t, body, "<td>full</td><td>1.25 s</td>")
	require.Contains(t, body, `<span class="badge failed">ended</span>`)
	require.Contains(t, body, "tasks-normal")
	require.Contains(t, body, "None has ended.")
	require.Contains(t, body, "168h0m0s")
	require.Contains(
		t,
		body,
		`<span class="badge failed">fails</span></td><td>&lt;script&gt; is missing`,
	)
	require.Contains(t, body, `<span class="badge active">passes</span></td><td>–</td>`)

	body = p.posted("/ui/operations/keys", url.Values{"name": {"<script>"}, "scope": {"read"}})
	key := code.FindStringSubmatch(body)[1]
	body = p.shown("/ui/operations")
	require.NotContains(t, body, key)
	revoke := regexp.MustCompile(`/ui/operations/keys/[^/]+/revoke`).FindString(body)
	require.Equal(t, http.StatusOK, signedIn(t, f, key).get("/ui/operations").Code)
	require.Equal(t, http.StatusSeeOther, p.post(revoke, own, nil).Code)
	require.NotContains(t, p.shown("/ui/operations"), revoke)
	w := p.post("/ui/operations/keys", own, url.Values{"scope": {"read"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "<p>name: ")

	reader := signedIn(t, f, f.MakeKey(t, admin, "", "read").Key)
	require.NotContains(t, reader.shown("/ui/operations"), "168h0m0s", "needs the scope admin")
	shops := signedIn(t, f, f.MakeKey(t, admin, "shop", "admin").Key)
	require.Equal(t, http.StatusNotFound, shops.get("/ui/operations").Code)
	require.NotContains(t, shops.shown("/ui/apps/shop/app"), "/ui/operations")
	require.Contains(t, reader.shown("/ui/apps/shop/timers"), "/ui/operations")
}

// TestReadersAreOfferedNoChanges checks the pages of a viewer whose key may only read, and that
// looking at them denies nothing.
func TestReadersAreOfferedNoChanges(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f, admin := apitest.Guarded(t, func(o *api.Options) { o.Registerer = registry })
	f.Call(t, http.MethodPut, "/api/v2/calendars/days?app=shop", `{}`, apitest.Bearer(admin))
	body := strings.Replace(apitest.V2Body, `{"app"`, `{"status":"active","app"`, 1)
	f.Call(t, http.MethodPost, "/api/v2/timers", body, apitest.Bearer(admin))
	writer := signedIn(t, f, f.MakeKey(t, admin, "shop", "write").Key)
	reader := signedIn(t, f, f.MakeKey(t, admin, "shop", "read").Key)
	for path, change := range map[string]string{
		"/ui/apps/shop/app":            "/app/freeze",
		"/ui/apps/shop/calendars/days": "/calendars/days/import",
	} {
		require.Contains(t, writer.shown(path), change)
		require.NotContains(t, reader.shown(path), change)
	}
	const newTimerKey = "<kbd>n</kbd>"
	require.Contains(t, writer.shown("/ui/apps/shop/timers"), newTimerKey)
	require.NotContains(t, reader.shown("/ui/apps/shop/timers"), newTimerKey)
	reader.shown("/ui/apps/shop/dead-letters")
	reader.shown("/ui/apps/shop/calendars")
	denied := func() int {
		n, err := testutil.GatherAndCount(registry, "carillon_api_denied_total")
		require.NoError(t, err)
		return n
	}
	require.Zero(t, denied())
	w := reader.post("/ui/apps/shop/app/freeze", own, nil)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Equal(t, 1, denied())
}
