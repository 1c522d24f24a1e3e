package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestWhatIsIgnoredIsRefused covers parts of requests that an operation would not read.
func TestWhatIsIgnoredIsRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	const post, get = http.MethodPost, http.MethodGet
	path := func(below string) string { return apitest.TimerPath(tm.ID, below) }
	for _, c := range []struct{ method, path, body, header, value, location string }{
		{get, path("") + "&app=desk", "", "", "", "query.app"},
		{get, path("") + "&app=shop", "", "", "", "query.app"},
		{get, path("") + "&%61pp=desk", "", "", "", "query.app"},
		{http.MethodDelete, path("") + "&dry_run=true&dry_run=false", "", "", "", "query.dry_run"},
		{get, path("/fires") + "&state=failed&state=open", "", "", "", "query.state"},
		{post, path("/run"), `{"count":3}`, "", "", "body"},
		{post, path("/resume"), `x`, "", "", "body"},
		{http.MethodDelete, path(""), `{"if_version":9}`, "", "", "body"},
		{post, path("/pause"), `{}`, "If-Match", `"9"`, "header.If-Match"},
		{post, path("/run"), "", "If-Match", `"9"`, "header.If-Match"},
		{post, "/api/v2/timers", apitest.V2Body, "If-None-Match", "*", "header.If-None-Match"},
		{post, "/api/v2/timers", apitest.V2Body, "If-Match", `"1"`, "header.If-Match"},
	} {
		var header map[string]string
		if c.header != "" {
			header = map[string]string{c.header: c.value}
		}
		var p apitest.V2Problem
		f.Call(t, c.method, c.path, c.body, header).Into(t, http.StatusUnprocessableEntity, &p)
		require.Equal(t, c.location, p.Errors[0].Location, c.path)
		require.Contains(t, p.Detail, "leave ")
	}
	for _, body := range []string{"", "{}", " { }\n"} {
		f.Do(t, http.StatusOK, post, path("/pause"), "")
		f.Do(t, http.StatusOK, post, path("/resume"), body)
	}
}

// TestConditionsAreChecked sends conditions that would be dropped. Each names its header.
func TestConditionsAreChecked(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const put, timers, days = http.MethodPut, "/api/v2/timers", "/api/v2/calendars/days?app=shop"
	tm := f.Create(t, http.StatusCreated, apitest.V2Body)
	path := apitest.TimerPath(tm.ID, "")
	edited := strings.Replace(apitest.V2Body, "0 0 9", "0 0 8", 1)
	f.Calendar(t, http.StatusOK, put, "days?app=shop", `{}`)
	for _, c := range []struct {
		method, path, body string
		header             http.Header
		location           string
	}{
		{put, timers, edited, http.Header{"If-Match": {""}}, "header.If-Match"},
		{put, timers, edited, http.Header{"If-Match": {" ", ","}}, "header.If-Match"},
		{put, timers, edited, http.Header{"If-None-Match": {""}}, "header.If-None-Match"},
		{
			put, timers, edited,
			http.Header{"If-Match": {`"9"`}, "If-None-Match": {"*"}},
			"header.If-None-Match",
		},
		{put, timers, edited, http.Header{"If-None-Match": {"*", `"1"`}}, "header.If-None-Match"},
		{put, timers + "?if_id=" + tm.ID, edited, http.Header{"If-None-Match": {"*"}}, "query.if_id"},
		{put, timers + "?if_id=first", edited, http.Header{}, "query.if_id"},
		{http.MethodPatch, path, `{"labels":{}}`, http.Header{"If-Match": {"\t"}}, "header.If-Match"},
		{http.MethodDelete, path, "", http.Header{"If-Match": {""}}, "header.If-Match"},
		{put, days, `{"excluded_dates":["2030-01-01"]}`, http.Header{"If-None-Match": {""}}, "header.If-None-Match"},
	} {
		r := httptest.NewRequestWithContext(
			t.Context(),
			c.method,
			c.path,
			strings.NewReader(c.body),
		)
		r.Header = c.header
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.Api.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%v: %s", c.header, w.Body)
		require.Contains(t, w.Body.String(), `"`+c.location+`"`)
		require.Contains(t, w.Body.String(), ", found ")
	}
	require.Equal(t, 1, f.Do(t, http.StatusOK, http.MethodGet, path, "").Version)
}

// TestEmptyParametersAreRefused sends each query parameter of each operation without a value. None
// of them may then do what it does without the parameter.
func TestEmptyParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	var doc struct{ Paths described }
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	checked := map[string]int{}
	for path, item := range doc.Paths {
		for method, op := range item {
			for _, p := range op.Parameters {
				if p.In != "query" || p.Name == "app" || p.Name == "cursor" {
					continue
				}
				checked[p.Name]++
				at := strings.NewReplacer("{app}", "shop", "{id}", tm.ID, "{name}", "days").
					Replace(path)
				if !strings.Contains(at, "/shop") {
					at += "?app=shop"
				}
				at += map[bool]string{true: "&", false: "?"}[strings.Contains(at, "?")] + p.Name
				given := []string{at + "="}
				if p.Schema.Type != "boolean" {
					given = append(given, at)
				}
				for _, given := range given {
					a := f.Call(t, strings.ToUpper(method), given, "", nil)
					require.Equal(
						t,
						http.StatusUnprocessableEntity,
						a.Status,
						"%s: %s",
						given,
						a.Body,
					)
					require.Contains(t, a.Body, `"query.`+p.Name+`"`, given)
				}
			}
		}
	}
	require.Greater(t, checked["dry_run"], 25)
	for _, name := range []string{"if_version", "name", "labels", "due_before", "confirm", "limit"} {
		require.Positive(t, checked[name], name)
	}
	f.Do(t, http.StatusOK, http.MethodGet, "/api/v2/timers?app=shop&cursor=", "")
}

// TestFlagsNeedNoValue gives dry_run by its name alone, at each place of the query.
func TestFlagsNeedNoValue(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	for _, query := range []string{"app=shop&dry_run", "dry_run&app=shop", "dry%5Frun&app=shop"} {
		a := f.Call(t, http.MethodDelete, "/api/v2/timers/"+tm.ID+"?"+query, "", nil)
		require.Equal(t, http.StatusNoContent, a.Status, a.Body)
		f.Do(t, http.StatusOK, http.MethodGet, apitest.TimerPath(tm.ID, ""), "")
	}
	fires := apitest.TimerPath(tm.ID, "/fires") + "&state=open"
	before := f.Call(t, http.MethodGet, fires, "", nil).Body
	a := f.Call(t, http.MethodPost, "/api/v2/timers/"+tm.ID+"/run?dry_run&app=shop", "", nil)
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)
	require.Empty(t, a.Header.Get("Location"))
	require.Equal(t, before, f.Call(t, http.MethodGet, fires, "", nil).Body)
}

// TestMalformedQueriesAreRefused sends queries of which a part cannot be read, which would be taken as
// left out.
func TestMalformedQueriesAreRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	const post = http.MethodPost
	for _, c := range []struct{ method, path, body string }{
		{http.MethodDelete, apitest.TimerPath(tm.ID, "") + "&dry_run%", ""},
		{http.MethodDelete, apitest.TimerPath(tm.ID, "") + "&dry_run;", ""},
		{http.MethodDelete, apitest.TimerPath(tm.ID, "") + "&dry_run=true%", ""},
		{http.MethodDelete, "/api/v2/apps/shop?confirm=shop&dry_run%", ""},
		{post, "/api/v2/apps/shop/freeze?dry_run;", `{"reason":"why"}`},
		{post, "/api/v2/timers?dry_run%", strings.Replace(apitest.V2Body, `"bill"`, `"two"`, 1)},
		{http.MethodGet, "/api/v2/timers?app=shop&%zz=1", ""},
	} {
		a := f.Call(t, c.method, c.path, c.body, nil)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s: %s", c.path, a.Body)
		require.Contains(t, a.Body, `"location":"query"`, c.path)
	}
	a := f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil)
	require.Equal(t, 1, strings.Count(a.Body, `"id":`), a.Body)
}

// TestIdempotencyKeysAreRead sends keys of which a part would not count: two requests would then
// share a key, or have none.
func TestIdempotencyKeysAreRead(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	for _, at := range []struct{ path, body string }{
		{"/api/v2/timers", apitest.V2Body},
		{apitest.TimerPath(tm.ID, "/run"), ""},
	} {
		for _, keys := range [][]string{{""}, {"a", "b"}, {"M\xfcller"}, {"M\xf6ller"}} {
			r := httptest.NewRequestWithContext(
				t.Context(), http.MethodPost, at.path, strings.NewReader(at.body))
			r.Header = http.Header{"Idempotency-Key": keys, "Content-Type": {"application/json"}}
			w := httptest.NewRecorder()
			f.Api.Handler().ServeHTTP(w, r)
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%q: %s", keys, w.Body)
			require.Contains(t, w.Body.String(), `"header.Idempotency-Key"`)
		}
	}
	a := f.Call(t, http.MethodPost, apitest.TimerPath(tm.ID, "/run"), "",
		map[string]string{"Idempotency-Key": "Müller"})
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)
}
