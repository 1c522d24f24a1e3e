package audit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/v2/audit"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type trailBody struct {
	Items      []audit.AuditEntryBody
	NextCursor string `json:"next_cursor"`
}

// trail reads the whole audit trail of an app, the newest entry first.
func trail(
	t *testing.T, f *apitest.Fixture, path string, query url.Values, header map[string]string,
) (all []audit.AuditEntryBody) {
	t.Helper()
	for {
		var page trailBody
		f.Call(t, http.MethodGet, path+"?"+query.Encode(), "", header).Into(t, 200, &page)
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all
		}
		query.Set("cursor", page.NextCursor)
	}
}

const ofShop = "/api/v2/apps/shop/audit"

func did(entries []audit.AuditEntryBody) (out []string) {
	for i := range entries {
		out = append(out, entries[i].Action+" "+entries[i].Kind)
	}
	return out
}

// TestActors checks who is named: a key by its public id, a gateway by the app it names, and nobody
// where keys are off.
func TestActors(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Auth.TrustHeader = "X-App"
		o.Auth.TrustFrom = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	writer := f.MakeKey(t, admin, "shop", "write")
	header := apitest.Bearer(writer.Key)
	header["X-Request-ID"] = "order-17"
	a := f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, header)
	require.Equal(t, http.StatusCreated, a.Status)
	require.Equal(t, "order-17", a.Header.Get("X-Request-ID"))
	a = f.Call(
		t,
		http.MethodPut,
		"/api/v2/timers",
		strings.Replace(apitest.V2Body, "PUT", "GET", 1),
		map[string]string{"X-App": "shop", "X-Request-ID": "has a blank"},
	)
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	chosen := a.Header.Get("X-Request-ID")
	require.Regexp(t, "^[0-9a-f]{32}$", chosen, "an id of the caller that is no plain text")

	got := trail(t, f, ofShop, url.Values{}, apitest.Bearer(admin))
	require.Equal(t, []string{"update timer", "create timer", "create api_key"}, did(got))
	require.Equal(
		t,
		audit.AuditActorBody{Kind: "gateway", ID: "shop", Address: "192.0.2.1"},
		got[0].Actor,
	)
	require.Equal(t, chosen, got[0].RequestID)
	require.Equal(t, audit.AuditActorBody{
		Kind: "key", ID: writer.ID, Name: "of a test", Address: "192.0.2.1",
	}, got[1].Actor)
	require.Equal(t, "order-17", got[1].RequestID)
	require.Equal(t, "CARILLON_ADMIN_KEY", got[2].Actor.Name)
	require.Equal(t, map[string]any{"name": "of a test", "scope": "write"}, got[2].After)
	require.NotContains(t, apitest.Text(t, got), writer.Key)

	f.MakeKey(t, admin, "", "read")
	own := trail(t, f, "/api/v2/audit", url.Values{}, apitest.Bearer(admin))
	require.Equal(t, []string{"create api_key"}, did(own), "those of the deployment's keys alone")

	open := apitest.Setup(t)
	open.Create(t, 201, apitest.V2Body)
	got = trail(t, open, ofShop, url.Values{}, nil)
	require.Equal(t, audit.AuditActorBody{Kind: "anonymous", Address: "192.0.2.1"}, got[0].Actor)
}

// TestBeforeAndAfter shows each kind of resource in the form in which the API shows it.
func TestBeforeAndAfter(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	call := func(status int, method, path, body string) {
		t.Helper()
		a := f.Call(t, method, "/api/v2"+path, body, nil)
		require.Equal(t, status, a.Status, a.Body)
	}
	made := f.Create(t, 201, apitest.V2Body)
	at := "/timers/" + made.ID
	call(200, "PATCH", at+"?app=shop", `{"labels":{"team":"pay"}}`)
	call(200, "PATCH", at+"?app=shop", `{"status":"active"}`)
	until := apitest.RFC(time.Now().Add(time.Hour))
	call(200, "POST", at+"/pause?app=shop", `{"reason":"moves","until":"`+until+`"}`)
	call(202, "POST", at+"/run?app=shop", ``)
	call(204, "DELETE", at+"?app=shop", ``)
	call(200, "PUT", "/calendars/days?app=shop", `{"excluded_dates":["2027-01-01"]}`)
	call(202, "POST", "/apps/shop/jobs", `{"action":"pause","filter":{"labels":"team=pay"}}`)
	call(200, "PUT", "/apps/shop/settings?dry_run=true", `{"rate":5}`)
	call(200, "PUT", "/apps/shop/settings", `{"concurrent":2}`)
	call(200, "PUT", "/apps/shop/settings", `{}`)

	got := trail(t, f, ofShop, url.Values{"limit": {"3"}}, nil)
	none := map[string]any{"rate": 0.0, "burst": 0.0, "concurrent": 0.0, "allow": []any{}}
	two := maps.Clone(none)
	two["concurrent"] = 2.0
	require.Equal(t, none, got[0].After, "a limit that is removed is a change")
	require.Equal(t, two, got[0].Before)
	require.Equal(t, two, got[1].After)
	got = got[2:]
	require.Equal(t, []string{
		"create job", "create calendar", "delete timer", "run timer", "pause timer",
		"activate timer", "update timer", "create timer",
	}, did(got))
	job, days, deleted, run, pause, update := got[0], got[1], got[2], got[3], got[4], got[6]
	require.Equal(t, "pause", job.After["action"])
	require.Equal(t, map[string]any{"labels": "team=pay", "status": "active"}, job.After["filter"])
	require.Equal(t, "days", days.Resource)
	require.Equal(t, []any{"2027-01-01"}, days.After["excluded_dates"])
	require.Nil(t, deleted.After)
	require.Equal(t, "paused", deleted.Before["status"])
	require.NotNil(t, deleted.Before["definition"])
	require.InDelta(t, 1, run.After["fires"], 0)
	require.Equal(t, map[string]any{"status": "active", "version": 2.0}, pause.Before)
	require.Equal(t, map[string]any{
		"status": "paused", "reason": "moves", "until": until, "version": 2.0,
	}, pause.After)
	require.NotContains(t, update.Before["definition"], "labels")
	after, _ := update.After["definition"].(map[string]any)
	require.Equal(t, map[string]any{"team": "pay"}, after["labels"])
	for _, e := range got[2:] {
		require.Equal(t, "bill", e.Name)
		require.Equal(t, made.ID, e.Resource)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	first := f.Create(t, 201, apitest.V2Body)
	path := "/api/v2/timers?app=shop&name=bill"
	require.Equal(t, 204, f.Call(t, http.MethodDelete, path, "", nil).Status)
	selected := func(query url.Values) []string {
		t.Helper()
		return did(trail(t, f, ofShop, query, nil))
	}
	both := []string{"delete timer", "create timer"}
	require.Equal(t, both, selected(url.Values{"timer": {"bill"}}), "of a deleted one, by name")
	second := f.Create(t, 201, apitest.V2Body)
	require.Equal(t, both, selected(url.Values{"timer": {first.ID}}))
	require.Equal(t, []string{"create timer"}, selected(url.Values{"timer": {"bill"}}))
	require.Equal(t, []string{"create timer"},
		selected(url.Values{"kind": {"timer"}, "resource": {second.ID}}))
	require.Equal(t, []string{"delete timer"}, selected(url.Values{"action": {"delete"}}))
	require.Empty(t, selected(url.Values{"actor": {"someone"}}))
	require.Empty(t, selected(url.Values{"kind": {"calendar"}}))
	now := time.Now()
	hour := apitest.RFC(now.Add(time.Hour))
	require.Len(t, selected(url.Values{"to": {hour}}), 3)
	require.Empty(t, selected(url.Values{"from": {hour}}))
	require.Len(t, selected(url.Values{"limit": {"1"}}), 3, "by pages")

	for query, location := range map[string]string{
		"resource=5":                   "query.resource",
		"kind=nothing":                 "query.kind",
		"cursor=x":                     "query.cursor",
		"from=now":                     "query.from",
		"timer=bill&kind=calendar":     "query.timer",
		"from=" + hour + "&to=" + hour: "query.to",
		"from=1970-01-01T00:00:00Z&to=1969-01-01T00:00:00Z": "query.to",
	} {
		p := f.Problem(t, http.StatusUnprocessableEntity, http.MethodGet, ofShop+"?"+query, "")
		require.Equal(t, location, p.Errors[0].Location, query)
	}
	for _, query := range []string{"?", "?from=1969-01-01T00:00:00Z&"} {
		var page struct{ Items []struct{ ID string } }
		f.Call(t, http.MethodGet, ofShop+query+"to=1970-01-01T00:00:00Z", "", nil).
			Into(t, 200, &page)
		require.Empty(t, page.Items, "0 is an end")
	}
}

// TestPagesOfLargeDefinitions checks that pages end by their size, and together have all entries.
func TestPagesOfLargeDefinitions(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	const timers = 30
	body := strings.Repeat("x", 250_000)
	for i := range timers {
		made := f.Call(t, http.MethodPost, "/api/v2/timers", fmt.Sprintf(
			`{"app":"shop","name":"n%d","schedule":{"kind":"cron","specs":["0 9 * * *"]},`+
				`"target":{"kind":"http","url":"https://example.com/","body":%q}}`, i, body,
		), apitest.Bearer(admin))
		require.Equal(t, http.StatusCreated, made.Status)
	}
	a := f.Call(t, http.MethodGet, ofShop+"?limit=1000", "", apitest.Bearer(admin))
	require.Less(t, len(a.Body), audit.PageBytes+10*(len(body)+2000))
	var page trailBody
	a.Into(t, http.StatusOK, &page)
	require.NotEmpty(t, page.NextCursor)

	got := trail(t, f, ofShop, url.Values{"limit": {"1000"}}, apitest.Bearer(admin))
	require.Len(t, got, timers)
	for i := range got {
		require.Equal(t, fmt.Sprintf("n%d", timers-1-i), got[i].Name)
	}
}
