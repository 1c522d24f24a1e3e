package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestTheFirstInstantIsShown covers 1970-01-01T00:00:00Z, which is 0 in the store.
func TestTheFirstInstantIsShown(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const first = "1970-01-01T00:00:00Z"
	tm, _ := f.Active(t, "bill", `{"kind":"cron","specs":["@daily"]}`)
	a := f.Call(t, http.MethodPost, apitest.TimerPath(tm.ID, "/backfills"),
		`{"from":"`+first+`","to":"1970-01-03T00:00:00Z"}`, nil)
	require.Contains(t, a.Body, `"from":"1970-01-01T00:00:00.000Z"`)
	require.Contains(t, a.Body, `"next":"1970-01-01T00:00:00.000Z"`)
	a = f.Call(t, http.MethodGet, "/api/v2/apps/shop/fires?due_to="+first, "", nil)
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	p := f.Problem(t, 422, http.MethodGet,
		"/api/v2/apps/shop/fires?due_from="+first+"&due_to="+first, "")
	require.Contains(t, p.Detail, first)
}

// TestMessagesNameTheRemedy covers messages that named another cause.
func TestMessagesNameTheRemedy(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const post, timers = http.MethodPost, "/api/v2/timers"
	for schedule, want := range map[string]string{
		`{"kind":"delay","delay":"0s"}`:         `longer than 0s and up to 10 years (3650d), found "0s"`,
		`{"kind":"interval","every":"0s"}`:      `from 1s to 10 years (3650d), found "0s"`,
		`{"kind":"delay","delay":"200000d"}`:    `at most 292 years (106751d), found "200000d"`,
		`{"kind":"interval","every":"200000d"}`: `at most 292 years (106751d), found "200000d"`,
	} {
		p := f.Problem(t, 422, post, timers, apitest.With(schedule, ""))
		require.Len(t, p.Errors, 1)
		require.Contains(t, p.Errors[0].Message, want)
	}
	key := map[string]string{"Idempotency-Key": "k"}
	require.Equal(t, 201, f.Call(t, post, timers, apitest.V2Body, key).Status)
	var p apitest.V2Problem
	f.Call(t, post, timers, strings.Replace(apitest.V2Body, "bill", "other", 1), key).
		Into(t, 409, &p)
	require.Equal(t, "header.Idempotency-Key", p.Errors[0].Location)
	require.Contains(t, p.Detail, "use another key")

	p = f.Problem(
		t,
		422,
		post,
		"/api/v2/apps/shop/keys",
		`{"name":"`+strings.Repeat("é", 129)+`","scope":"read"}`,
	)
	require.Contains(t, p.Detail, "at most 128 characters, found a text of 129 characters")

	p = f.Problem(t, 422, http.MethodGet, "/api/v2/timers/bill?app=shop", "")
	require.Equal(t, `path.id: expected an id of 1 to 16 digits, found "bill"`, p.Detail)

	for _, app := range []string{".", ".."} {
		p = f.Problem(t, 422, post, timers, strings.Replace(apitest.V2Body, "shop", app, 1))
		require.Equal(t, "body.app", p.Errors[0].Location)
		require.Contains(t, p.Detail, "choose another name")
		p = f.Problem(t, 422, http.MethodPut, "/api/v2/calendars/days?app="+app, `{}`)
		require.Equal(t, "query.app", p.Errors[0].Location)
	}
}

// TestAnUnknownAppIsNamed checks that an error about an app that does not exist names it, where the
// request does, and what to do.
func TestAnUnknownAppIsNamed(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const app = "/api/v2/apps/shpo"
	for _, c := range [][3]string{
		{http.MethodGet, app, ""},
		{http.MethodDelete, app + "?confirm=shpo", ""},
		{http.MethodGet, app + "/settings", ""},
		{http.MethodPost, app + "/freeze", `{}`},
		{http.MethodPost, app + "/redrives", `{}`},
		{http.MethodPost, app + "/jobs", `{"action":"pause","all":true}`},
	} {
		p := f.Problem(t, 404, c[0], c[1], c[2])
		require.Len(t, p.Errors, 1, c)
		require.Equal(t, "path.app", p.Errors[0].Location, c)
		require.Contains(t, p.Detail, `no app "shpo": check its name in the list of apps`, c)
	}
}

// TestBooleansInTheQuery checks that the error about a boolean says what may be given.
func TestBooleansInTheQuery(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, c := range [][4]string{
		{http.MethodPost, "/api/v2/timers", "dry_run", apitest.V2Body},
		{http.MethodGet, "/api/v2/timers?app=shop", "count", ""},
		{http.MethodGet, "/api/v2/apps/shop/dead-letters", "again", ""},
		{http.MethodGet, "/api/v2/apps/shop/events", "follow", ""},
	} {
		sign := "?"
		if strings.Contains(c[1], "?") {
			sign = "&"
		}
		p := f.Problem(t, 422, c[0], c[1]+sign+c[2]+"=yes", c[3])
		require.Equal(t, `query.`+c[2]+`: expected true or false, found "yes"`, p.Detail)
	}
}

// TestKeysOfTheDeployment checks that a key of an app is told to use another key.
func TestKeysOfTheDeployment(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	for scope, want := range map[string]map[string]int{
		"write": {"/operations": 404, "/operations/settings": 403, "/keys": 403, "/audit": 403},
		"admin": {"/operations": 404, "/operations/settings": 404, "/keys": 404, "/audit": 404},
	} {
		own := f.MakeKey(t, admin, "shop", scope).Key
		for path, status := range want {
			a := f.Call(t, http.MethodGet, "/api/v2"+path, "", apitest.Bearer(own))
			require.Equal(t, status, a.Status, path)
			require.Contains(t, a.Body, "a key of the deployment, of scope", path)
		}
	}
}
