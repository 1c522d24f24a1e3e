package timers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// dryAndReal sends a request as a dry run, checks that it wrote nothing, and sends it again. It
// returns both answers without what only one of them can have.
func dryAndReal(
	t *testing.T,
	f *apitest.Fixture,
	method, path, body string,
) (dry, done map[string]any) {
	t.Helper()
	const list = "/api/v2/timers?app=shop"
	before := f.Call(t, http.MethodGet, list, "", nil).Body
	joiner := "?"
	if strings.Contains(path, "?") {
		joiner = "&"
	}
	a := f.Call(t, method, path+joiner+"dry_run=true", body, nil)
	a.Into(t, http.StatusOK, &dry)
	require.Empty(t, a.Header.Get("Location"))
	require.JSONEq(t, before, f.Call(t, http.MethodGet, list, "", nil).Body, "nothing was written")
	require.Equal(t, true, dry["dry_run"])
	require.NotEmpty(t, dry["upcoming"])
	if dry["next_due"] != nil {
		require.Equal(t, dry["next_due"], dry["upcoming"].([]any)[0])
	}
	b := f.Call(t, method, path, body, nil)
	require.Less(t, b.Status, 300, b.Body)
	require.NoError(t, json.Unmarshal([]byte(b.Body), &done))
	for _, name := range []string{"id", "created_at", "updated_at", "active_since", "fires_created", "dry_run", "upcoming"} {
		delete(dry, name)
		delete(done, name)
	}
	return dry, done
}

func TestDryRunsAnswerAsTheWrites(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Calendar(
		t,
		http.StatusOK,
		http.MethodPut,
		"weekdays?app=shop",
		`{"excluded_weekdays":["sat","sun"]}`,
	)
	daily := apitest.With(
		`{"kind":"cron","specs":["0 9 * * *"],"calendars":["weekdays"]}`,
		`"status":"active","labels":{"team":"pay"}`,
	)
	dry, done := dryAndReal(t, f, http.MethodPost, "/api/v2/timers", daily)
	require.Equal(t, done, dry)
	hourly := strings.Replace(daily, "0 9 * * *", "30 * * * *", 1)
	dry, done = dryAndReal(t, f, http.MethodPut, "/api/v2/timers", hourly)
	require.Equal(t, done, dry)
	require.InDelta(t, 2, dry["version"], 0)
	dry, done = dryAndReal(t, f, http.MethodPut, "/api/v2/timers", hourly)
	require.Equal(t, done, dry, "the same definition makes no version")
	require.InDelta(t, 2, dry["version"], 0)

	id := f.Create(t, http.StatusOK, hourly).ID
	path := "/api/v2/timers/" + id + "?app=shop"
	dry, done = dryAndReal(t, f, http.MethodPatch, path, `{"status":"inactive","priority":"high"}`)
	require.Equal(t, done, dry)
	require.Nil(t, dry["next_due"], "it is not active")
	dry, done = dryAndReal(
		t,
		f,
		http.MethodPatch,
		path,
		`{"status":"active","schedule":{"kind":"cron","specs":["0 0 * * *"]}}`,
	)
	require.Equal(t, done, dry)
}

// TestDryRunsOfEditsPlanNothing checks that an edit makes the fires of its own schedule after a dry
// run of another edit, which had the same version.
func TestDryRunsOfEditsPlanNothing(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	body := apitest.With(`{"kind":"cron","specs":["0 0 1 1 *"]}`, `"status":"active"`)
	made := f.Create(t, http.StatusCreated, body)
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	every := func(minutes string) string {
		return `{"schedule":{"kind":"cron","specs":["*/` + minutes + ` * * * *"]}}`
	}
	var edited struct {
		NextDue time.Time `json:"next_due"`
	}
	f.Call(t, http.MethodPatch, path+"&dry_run=true", every("30"), nil).
		Into(t, http.StatusOK, &edited)
	f.Call(t, http.MethodPatch, path, every("7"), nil).Into(t, http.StatusOK, &edited)
	require.Zero(t, edited.NextDue.Minute()%7, edited.NextDue)
	require.Less(t, time.Until(edited.NextDue), 7*time.Minute)
	planned := f.Dispatched.All()
	require.GreaterOrEqual(t, len(planned), 8, "an hour of them")
	for _, fire := range planned {
		due := time.UnixMilli(fire.DueMS).UTC()
		require.Zero(t, due.Minute()%7, due)
	}
}

func TestDryRunsReportErrors(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm := f.Create(t, http.StatusCreated, apitest.V2Body)
	other := strings.Replace(apitest.V2Body, "0 0 9", "0 0 8", 1)
	require.NotEqual(t, apitest.V2Body, other)
	for _, path := range []string{"/api/v2/timers", "/api/v2/timers?dry_run=true"} {
		p := f.Problem(t, http.StatusConflict, http.MethodPost, path, other)
		require.Contains(t, apitest.Text(t, p), "a timer of this name exists")
	}
	bad := strings.Replace(apitest.V2Body, "0 0 9", "0 0 99", 1)
	f.Problem(t, http.StatusUnprocessableEntity, http.MethodPut, "/api/v2/timers?dry_run=true", bad)
	p := f.Problem(
		t,
		http.StatusConflict,
		http.MethodPatch,
		"/api/v2/timers/"+tm.ID+"?app=shop&dry_run=true",
		`{"priority":"high","if_version":7}`,
	)
	require.Contains(t, apitest.Text(t, p), "if_version")
	f.Problem(
		t,
		http.StatusNotFound,
		http.MethodPatch,
		"/api/v2/timers/7?app=shop&dry_run=true",
		`{"priority":"high"}`,
	)
}
