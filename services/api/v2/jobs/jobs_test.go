package jobs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// job is a job as the API shows it.
type job struct {
	ID, App, Action, Status string
	Filter                  map[string]string
	Total                   int
	DryRun                  bool `json:"dry_run"`
	Sample                  []struct{ ID, Name, Status string }
}

// setup runs an API with timers a0 to a14 of team pay, and b0 to b4 without labels.
func setup(t *testing.T) *apitest.Fixture {
	t.Helper()
	f := apitest.Setup(t)
	create := func(name, more string) {
		body := strings.Replace(
			apitest.TimerWith(
				`{"kind":"cron","specs":["@daily"]}`,
				`{"url":"https://example.com/"}`,
				`,"status":"active"`+more,
			), `"bill"`, `"`+name+`"`, 1)
		f.Create(t, 201, body)
	}
	for i := range 15 {
		create(fmt.Sprintf("a%d", i), `,"labels":{"team":"pay"}`)
	}
	for i := range 5 {
		create(fmt.Sprintf("b%d", i), "")
	}
	return f
}

const path = "/api/v2/apps/shop/jobs"

func TestDryRunsOfJobs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var got job
	body := `{"action":"pause","filter":{"labels":"team in (pay)"}}`
	f.Call(t, http.MethodPost, path+"?dry_run=true", body, nil).Into(t, 200, &got)
	require.True(t, got.DryRun)
	require.Empty(t, got.ID)
	require.Equal(t, 15, got.Total)
	require.Len(t, got.Sample, 10)
	require.Equal(t, "a0", got.Sample[0].Name)
	require.Equal(t, map[string]string{"labels": "team=pay", "status": "active"}, got.Filter)
	var list struct{ Items []job }
	f.Call(t, http.MethodGet, path, "", nil).Into(t, 200, &list)
	require.Empty(t, list.Items)
	for filter, want := range map[string]int{
		`"filter":{"name_prefix":"b"}`:             5,
		`"filter":{"name_contains":"1"}`:           7, // a1, a10 to a14, b1
		`"filter":{"target_host":"EXAMPLE.com"}`:   20,
		`"filter":{"target_host":"other.example"}`: 0,
		`"filter":{"status":"inactive"}`:           0,
		`"all":true`:                               20,
	} {
		var got job
		f.Call(t, http.MethodPost, path+"?dry_run=true", `{"action":"run",`+filter+`}`, nil).
			Into(t, 200, &got)
		require.Equal(t, want, got.Total, filter)
	}
}

func TestJobsAreStartedAndCancelled(t *testing.T) {
	t.Parallel()
	f := setup(t)
	body := `{"action":"relabel","all":true,"set_labels":{"env":"prod"},"remove_labels":["team"]}`
	key := map[string]string{"Idempotency-Key": "once"}
	var first, again job
	a := f.Call(t, http.MethodPost, path, body, key)
	a.Into(t, 202, &first)
	require.Equal(t, path+"/"+first.ID, a.Header.Get("Location"))
	require.Equal(t, "running", first.Status)
	require.Equal(t, 20, first.Total)
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &again)
	require.Equal(t, first.ID, again.ID, "the key makes no second job")
	a = f.Call(t, http.MethodPost, path, `{"action":"delete","all":true}`, key)
	require.Equal(t, 409, a.Status, a.Body)
	var second job
	f.Call(t, http.MethodPost, path, `{"action":"run","all":true}`, nil).Into(t, 202, &second)

	var page struct {
		Items []job
		Next  string `json:"next_cursor"`
	}
	f.Call(t, http.MethodGet, path+"?limit=1", "", nil).Into(t, 200, &page)
	require.Equal(t, second.ID, page.Items[0].ID, "latest first")
	f.Call(t, http.MethodGet, path+"?limit=1&cursor="+page.Next, "", nil).Into(t, 200, &page)
	require.Equal(t, first.ID, page.Items[0].ID)
	require.Empty(t, page.Next)
	for range 2 {
		f.Call(t, http.MethodPost, path+"/"+first.ID+"/cancel", "", nil).Into(t, 200, &again)
		require.Equal(t, "cancelled", again.Status)
	}
	f.Call(t, http.MethodGet, path+"/"+first.ID, "", nil).Into(t, 200, &again)
	require.Equal(t, "cancelled", again.Status)
	require.Equal(t, 404, f.Call(t, http.MethodGet, path+"/7", "", nil).Status)
}

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for body, want := range map[string]string{
		`{"action":"pause"}`:                                                          "body.all",
		`{"action":"pause","filter":{}}`:                                              "body.all",
		`{"action":"pause","filter":{"labels":"a in b"}}`:                             "body.filter.labels",
		`{"action":"pause","filter":{"status":"inactive"}}`:                           "body.filter.status",
		`{"action":"resume","filter":{"status":"active"}}`:                            "body.filter.status",
		`{"action":"pause","all":true,"until":"2001-01-01T00:00:00Z"}`:                "body.until",
		`{"action":"resume","all":true,"until":"2030-01-31T09:00:00Z"}`:               "body.until",
		`{"action":"run","all":true,"remove_labels":["x"]}`:                           "body.remove_labels",
		`{"action":"run","all":true,"reason":"x"}`:                                    "body.reason",
		`{"action":"run","all":true,"set_labels":{"a":"b"}}`:                          "body.set_labels",
		`{"action":"relabel","all":true}`:                                             "body.set_labels",
		`{"action":"relabel","all":true,"set_labels":{"{":""}}`:                       "body.set_labels.{",
		`{"action":"relabel","all":true,"remove_labels":[""]}`:                        "body.remove_labels[0]",
		`{"action":"relabel","all":true,"set_labels":{"a":""},"remove_labels":["a"]}`: "body.remove_labels[0]",
		`{"action":"delete_app","all":true}`:                                          "body.action",
	} {
		a := f.Call(t, http.MethodPost, path, body, nil)
		require.Equal(t, 422, a.Status, "%s: %s", body, a.Body)
		require.Contains(t, a.Body, `"`+want+`"`, body)
	}
	a := f.Call(t, http.MethodPost, "/api/v2/apps/none/jobs", `{"action":"run","all":true}`, nil)
	require.Equal(t, 404, a.Status, a.Body)
	a = f.Call(t, http.MethodPost, "/api/v2/apps/carillon/jobs", `{"action":"run","all":true}`, nil)
	require.Equal(t, 422, a.Status, a.Body)
}

// TestLongLabelsOfAJob checks that a relabel may set all labels that a timer may have, and that a longer
// request is not blamed on the filter.
func TestLongLabelsOfAJob(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const path = "/api/v2/apps/shop/jobs"
	labels := func(char string) string {
		set := make(map[string]string, timer.MaxLabels)
		for i := range timer.MaxLabels {
			set[fmt.Sprintf("%03d", i)+strings.Repeat(char, timer.MaxLabelLen-3)] = strings.Repeat(
				char,
				timer.MaxLabelLen,
			)
		}
		return apitest.Text(t, set)
	}
	a := f.Call(t, http.MethodPost, path,
		`{"action":"relabel","all":true,"set_labels":`+labels("&")+`}`, nil)
	require.Equal(t, http.StatusAccepted, a.Status, "%.500s", a.Body)
	remove := make([]string, timer.MaxLabels)
	for i := range remove {
		remove[i] = fmt.Sprintf("x%02d", i) + strings.Repeat(`"`, timer.MaxLabelLen-3)
	}
	p := f.Problem(t, 422, http.MethodPost, path, `{"action":"relabel","all":true,"set_labels":`+
		labels(`"`)+`,"remove_labels":`+apitest.Text(t, remove)+`}`)
	require.Contains(t, p.Detail,
		"expected a filter and parameters of at most 49152 bytes as JSON, found ")
	require.Empty(t, p.Errors)
}

// TestAFrozenAppIsNotRun checks that a run is refused as the run of one timer is, and that a repeated
// request finds its job all the same.
func TestAFrozenAppIsNotRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const body = `{"action":"run","all":true}`
	key := map[string]string{"Idempotency-Key": "once"}
	other := map[string]string{"Idempotency-Key": "2"}
	var first, again job
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &first)
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", "", nil).Into(t, 200, &struct{}{})
	for range 2 {
		a := f.Call(t, http.MethodPost, path, body, other)
		require.Equal(t, 409, a.Status, a.Body)
		require.Contains(t, a.Body, "the app shop is frozen")
	}
	require.Equal(t, 409, f.Call(t, http.MethodPost, path+"?dry_run=true", body, nil).Status)
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &again)
	require.Equal(t, first.ID, again.ID)
	pause := f.Call(t, http.MethodPost, path, `{"action":"pause","all":true}`, nil)
	require.Equal(t, 202, pause.Status, "it may be changed")
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil).Into(t, 200, &struct{}{})
	require.Equal(t, 202, f.Call(t, http.MethodPost, path, body, other).Status)
}

func TestAppsAreDeleted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, confirm := range []string{"", "?confirm=desk"} {
		a := f.Call(t, http.MethodDelete, "/api/v2/apps/shop"+confirm, "", nil)
		require.Equal(t, 422, a.Status, a.Body)
		require.Contains(t, a.Body, "query.confirm")
	}
	var dry map[string]any
	f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop&dry_run=true", "", nil).
		Into(t, 202, &dry)
	require.Equal(t, "delete_app", dry["action"])
	require.InDelta(t, 20, dry["total"], 0)
	for _, field := range []string{"id", "status", "created_at", "updated_at"} {
		require.NotContains(t, dry, field, "of a job that does not exist")
	}
	var first, again job
	f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop", "", nil).Into(t, 202, &first)
	require.Equal(t, "delete_app", first.Action)
	require.Equal(t, 20, first.Total)
	f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop", "", nil).Into(t, 202, &again)
	require.Equal(t, first.ID, again.ID)
	var app map[string]any
	f.Call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).Into(t, 200, &app)
	require.Equal(t, true, app["frozen"])
	require.Equal(t, first.ID, app["deleting"])
	a := f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, nil)
	require.Equal(t, 409, a.Status, a.Body)
	require.Contains(t, a.Body, "wait until its job delete_app is done")
	a = f.Call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil)
	require.Equal(t, 409, a.Status, a.Body)
	a = f.Call(t, http.MethodPost, path+"/"+first.ID+"/cancel", "", nil)
	require.Equal(t, 409, a.Status, a.Body)
	a = f.Call(t, http.MethodDelete, "/api/v2/apps/none?confirm=none", "", nil)
	require.Equal(t, 404, a.Status, a.Body)
}

// TestBlankFiltersSelectNothing checks that a filter without requirements is not taken for all timers.
func TestBlankFiltersSelectNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for filter, location := range map[string]string{
		`{"labels":" "}`:                       "body.filter.labels",
		`{"labels":"\t\n"}`:                    "body.filter.labels",
		`{"labels":" ","status":"active"}`:     "body.filter.labels",
		`{"labels":"","status":"active"}`:      "body.filter.labels",
		`{"name_prefix":"","status":"active"}`: "body.filter.name_prefix",
		`{}`:                                   "body.all",
	} {
		p := f.Problem(t, 422, http.MethodPost, path, `{"action":"delete","filter":`+filter+`}`)
		require.Len(t, p.Errors, 1, filter)
		require.Equal(t, location, p.Errors[0].Location, filter)
	}
	p := f.Problem(
		t,
		422,
		http.MethodPost,
		path,
		`{"action":"delete","all":true,"filter":{"labels":" "}}`,
	)
	require.Contains(t, p.Detail, "filter.labels: expected a requirement such as team=pay")
	for _, list := range []string{"/api/v2/timers?app=shop", "/api/v2/apps/shop/fires?order=newest"} {
		p := f.Problem(t, 422, http.MethodGet, list+"&labels=%20", "")
		require.Equal(t, "query.labels", p.Errors[0].Location)
	}
	var jobs struct{ Items []job }
	f.Call(t, http.MethodGet, path, "", nil).Into(t, 200, &jobs)
	require.Empty(t, jobs.Items)
}
