package api_test

import (
	"net/http"
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
