package timers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2TimerLifecycle(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	a := f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, nil)
	var got apitest.V2Timer
	a.Into(t, 201, &got)
	require.Equal(t, "/api/v2/timers/"+got.ID+"?app=shop", a.Header.Get("Location"))
	require.NotContains(t, a.Body, "$schema")
	require.Equal(t, "inactive", got.Status)
	require.Empty(t, got.NextDue)
	require.Equal(t, 1, got.Version)
	require.Equal(t, map[string]any{
		"kind":      "cron",
		"specs":     []any{"0 0 9 * * *"},
		"time_zone": "UTC",
		"gap":       "shift",
		"overlap":   "first",
	}, got.Schedule)
	require.Equal(
		t,
		map[string]any{
			"attempts": 3.,
			"wait":     "1s",
			"factor":   2.,
			"max_wait": "1h0m0s",
			"timeout":  "5s",
		},
		got.Retry,
	)

	path := a.Header.Get("Location")
	var same apitest.V2Timer
	f.Call(t, http.MethodGet, path, "", nil).Into(t, 200, &same)
	require.Equal(t, got, same)

	f.Call(t, http.MethodPatch, path, `{"status":"active"}`, nil).Into(t, 200, &same)
	require.Equal(t, "active", same.Status)
	due, err := time.Parse(time.RFC3339, same.NextDue)
	require.NoError(t, err)
	require.Equal(t, "09:00:00.000", due.Format("15:04:05.000"))
	require.Positive(t, time.Until(due))
	require.LessOrEqual(t, time.Until(due), 24*time.Hour)

	f.Call(t, http.MethodPatch, path, `{"status":"inactive"}`, nil).Into(t, 200, &same)
	require.Equal(t, "inactive", same.Status)
	require.Equal(t, 204, f.Call(t, http.MethodDelete, path, "", nil).Status)
	f.Problem(t, 404, http.MethodGet, path, "")
	require.Equal(
		t,
		204,
		f.Call(t, http.MethodDelete, path, "", nil).Status,
		"a caller may repeat it",
	)
	f.Problem(t, 404, http.MethodPatch, path, `{"status":"active"}`)
}

func TestV2OneShots(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	at := time.Now().Add(10 * time.Minute).UTC().Truncate(time.Second)
	body := strings.Replace(
		apitest.V2Body,
		`{"kind":"cron","specs":["0 0 9 * * *"]}`,
		`{"kind":"at","at":"`+at.Format(time.RFC3339)+`"}`,
		1,
	)
	body = strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1)
	got := f.Create(t, 201, body)
	require.Equal(t, at.Format("2006-01-02T15:04:05.000Z"), got.NextDue)
	require.Len(t, f.Dispatched.All(), 1)
	require.Equal(t, at.UnixMilli(), f.Dispatched.All()[0].DueMS)

	zoned := strings.Replace(
		body,
		at.Format(time.RFC3339),
		at.In(time.FixedZone("", 7200)).Format(time.RFC3339),
		1,
	)
	require.Equal(t, got.ID, f.Create(t, 200, zoned).ID, "the same instant is the same definition")

	body = strings.Replace(
		apitest.V2Body,
		`{"kind":"cron","specs":["0 0 9 * * *"]}`,
		`{"kind":"delay","delay":"1m30s"}`,
		1,
	)
	body = strings.Replace(body, `"bill"`, `"late"`, 1)
	before := time.Now()
	got = f.Create(t, 201, strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1))
	require.Equal(t, "1m30s", got.Schedule["delay"])
	due, err := time.Parse(time.RFC3339, got.NextDue)
	require.NoError(t, err)
	require.WithinRange(
		t,
		due,
		before.Add(90*time.Second-time.Millisecond),
		time.Now().Add(90*time.Second),
	)
}

func TestV2NamesTheBadField(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, c := range []struct {
		from, to string
		status   int
		want     string
	}{
		{`"shop"`, `""`, 422, "body.app"},
		{`"shop"`, `"` + strings.Repeat("a", 65) + `"`, 422, "body.app"},
		{`"shop"`, `"a\u0000"`, 422, "body.app"},
		{`"app":"shop",`, ``, 422, "body.app"},
		{`"bill"`, `"` + strings.Repeat("é", 65) + `"`, 422, "body.name"},
		{`"kind":"cron"`, `"kind":"often"`, 422, "body.schedule.kind"},
		{`"kind":"cron","specs":["0 0 9 * * *"]`, `"kind":"cron"`, 422, "body.schedule.specs"},
		{`0 0 9 * * *`, `every day`, 422, "body.schedule.specs[0]"},
		{`["0 0 9 * * *"]`, `["@hourly","x"]`, 422, "body.schedule.specs[1]"},
		{`"specs":["0 0 9 * * *"]`, `"specs":["@hourly"],"time_zone":"Mars/Base"`, 422, "body.schedule.time_zone"},
		{`"kind":"cron","specs":["0 0 9 * * *"]`, `"kind":"at","at":"tomorrow"`, 422, "body.schedule.at"},
		{`"kind":"cron","specs":["0 0 9 * * *"]`, `"kind":"delay","delay":"soon"`, 422, "body.schedule.delay"},
		{`"kind":"cron","specs":["0 0 9 * * *"]`, `"kind":"delay","delay":"-1s"`, 422, "body.schedule.delay"},
		{`https://example.com/ring`, `example.com`, 422, "body.target.url"},
		{`"PUT"`, `"FETCH"`, 422, "body.target.method"},
		{`"X-A"`, `"Carillon-Due"`, 422, "body.target.headers.Carillon-Due"},
		{`"body":"x"`, `"body":"` + strings.Repeat("x", timer.MaxBodyLen+1) + `"`, 422, "body.target.body"},
		{`"body":"x"`, `"bodi":"x"`, 422, "body.target.bodi"},
		{`"body":"x"`, `"Body":"x"`, 422, "body.target.Body"},
		{`{"app"`, `{"color":"red","app"`, 422, "body.color"},
		{`{"app"`, `{"status":"deleted","app"`, 422, "body.status"},
		{`{"app"`, `{"retry":{"attempts":0},"app"`, 422, "body.retry.attempts"},
		{`{"app"`, `{"retry":{"timeout":"1h"},"app"`, 422, "body.retry.timeout"},
		{`{"app"`, `{"retry":{"factor":0.5},"app"`, 422, "body.retry.factor"},
		{`{"app"`, `{"retry":{"wait":"x"},"app"`, 422, "body.retry.wait"},
	} {
		body := strings.Replace(apitest.V2Body, c.from, c.to, 1)
		require.NotEqual(t, apitest.V2Body, body, c.from)
		p := f.Problem(t, c.status, http.MethodPost, "/api/v2/timers", body)
		require.NotEmpty(t, p.Errors, c.to)
		require.Equal(t, c.want, p.Errors[0].Location, c.to)
		require.NotEmpty(t, p.Errors[0].Message)
	}
	require.Contains(
		t,
		f.Problem(t, 422, http.MethodPost, "/api/v2/timers", strings.Replace(apitest.V2Body, `"app":"shop",`, ``, 1)).Errors[0].Message,
		"found nothing",
	)
	two := strings.NewReplacer(`0 0 9 * * *`, `x`, `"PUT"`, `"FETCH"`).Replace(apitest.V2Body)
	require.Len(
		t,
		f.Problem(t, 422, http.MethodPost, "/api/v2/timers", two).Errors,
		2,
		"all that is wrong at once",
	)
	f.Problem(t, 400, http.MethodPost, "/api/v2/timers", `{"app"`)
	f.Problem(t, 413, http.MethodPost, "/api/v2/timers", `{"app":"`+strings.Repeat("a", 3<<20)+`"}`)

	for path, want := range map[string]string{
		"/api/v2/timers":                                "query.app",
		"/api/v2/timers/1":                              "query.app",
		"/api/v2/timers/x?app=a":                        "path.id",
		"/api/v2/timers?app=a&limit=0":                  "query.limit",
		"/api/v2/timers?app=a&limit=1001":               "query.limit",
		"/api/v2/timers?app=a&status=odd":               "query.status",
		"/api/v2/timers?app=a&cursor=zzz":               "query.cursor",
		"/api/v2/timers?app=a&page=2":                   "query.page",
		"/api/v2/timers/1/fires?app=a&cursor=zzz":       "query.cursor",
		"/api/v2/fires/abc?app=a":                       "path.id",
		"/api/v2/fires/1-2":                             "query.app",
		"/api/v2/timers/1/fires":                        "query.app",
		"/api/v2/timers?app=" + strings.Repeat("a", 65): "query.app",
		"/api/v2/timers/12345678901234567890?app=a":     "path.id",
	} {
		p := f.Problem(t, 422, http.MethodGet, path, "")
		require.NotEmpty(t, p.Errors, path)
		require.Equal(t, want, p.Errors[0].Location, path)
	}
	f.Problem(t, 404, http.MethodGet, "/api/v2/nothing", "")
	f.Problem(t, 405, http.MethodPatch, "/api/v2/timers", "")
}

// TestV2NameThatATemplateCannotHold checks that a create and an edit know the timer's name.
func TestV2NameThatATemplateCannotHold(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const host = `"target":{"kind":"http","url":"https://example.com/","templates":true,` +
		`"headers":{"Host":["{{timer.name}}.example.com"]}}`
	body := apitest.WithTarget(host, "")
	f.Create(t, 201, body)
	body = strings.Replace(body, `"bill"`, `"the bill"`, 1)
	p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", body)
	require.Equal(t, "body.target.headers.Host", p.Errors[0].Location)
	got := f.Create(t, 201, strings.Replace(apitest.V2Body, `"bill"`, `"the bill"`, 1))
	p = f.Problem(t, 422, http.MethodPatch, apitest.TimerPath(got.ID, ""), "{"+host+"}")
	require.Equal(t, "body.target.headers.Host", p.Errors[0].Location)
}

func TestV2IdempotencyKey(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	key := map[string]string{"Idempotency-Key": "k1"}
	var first, again apitest.V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, key).Into(t, 201, &first)
	f.Call(t, http.MethodPost, "/api/v2/timers", apitest.V2Body, key).Into(t, 200, &again)
	require.Equal(t, first.ID, again.ID)
	other := strings.Replace(apitest.V2Body, `"bill"`, `"other"`, 1)
	require.Equal(t, 409, f.Call(t, http.MethodPost, "/api/v2/timers", other, key).Status)
	require.Equal(
		t,
		422,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			other,
			map[string]string{"Idempotency-Key": strings.Repeat("k", 256)},
		).Status,
	)
	// The limit is in bytes, and é has two.
	var p apitest.V2Problem
	f.Call(t, http.MethodPost, "/api/v2/timers", other,
		map[string]string{"Idempotency-Key": strings.Repeat("é", 200)}).Into(t, 422, &p)
	require.Equal(t, "header.Idempotency-Key", p.Errors[0].Location)
	require.Equal(
		t,
		"expected at most 255 bytes, found 400: use a shorter key",
		p.Errors[0].Message,
	)
	desk := strings.Replace(apitest.V2Body, `"shop"`, `"desk"`, 1)
	require.Equal(
		t,
		201,
		f.Call(t, http.MethodPost, "/api/v2/timers", desk, key).Status,
		"another app's keys are its own",
	)
}

func TestV2RepeatedName(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	first := f.Create(t, 201, apitest.V2Body)
	require.Equal(t, first.ID, f.Create(t, 200, apitest.V2Body).ID)
	p := f.Problem(
		t,
		409,
		http.MethodPost,
		"/api/v2/timers",
		strings.Replace(apitest.V2Body, "0 0 9", "0 0 8", 1),
	)
	require.Equal(t, "body.name", p.Errors[0].Location)
}

func TestV2ListInPages(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var wg sync.WaitGroup
	for i := range 7 {
		wg.Go(func() {
			body := strings.Replace(apitest.V2Body, `"bill"`, fmt.Sprintf(`"bill-%d"`, i), 1)
			if i < 3 {
				body = strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1)
			}
			f.Create(t, 201, body)
		})
	}
	wg.Wait()
	f.Create(t, 201, strings.Replace(apitest.V2Body, `"shop"`, `"desk"`, 1))

	list := func(query string) (names []string) {
		cursor := ""
		for {
			var page struct {
				Items      []apitest.V2Timer
				NextCursor string `json:"next_cursor"`
			}
			f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&limit=2"+query+cursor, "", nil).
				Into(t, 200, &page)
			require.LessOrEqual(t, len(page.Items), 2)
			for _, i := range page.Items {
				names = append(names, i.Name)
			}
			if page.NextCursor == "" {
				return names
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
	require.ElementsMatch(
		t,
		[]string{"bill-0", "bill-1", "bill-2", "bill-3", "bill-4", "bill-5", "bill-6"},
		list(""),
	)
	require.ElementsMatch(t, []string{"bill-0", "bill-1", "bill-2"}, list("&status=active"))
	a := f.Call(t, http.MethodGet, "/api/v2/timers?app=nobody", "", nil)
	require.JSONEq(t, `{"items":[],"next_cursor":""}`, a.Body)
}

func TestV2FiresAndAttempts(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	body := strings.Replace(
		apitest.V2Body,
		`{"kind":"cron","specs":["0 0 9 * * *"]}`,
		`{"kind":"cron","specs":["*/10 * * * * *"]}`,
		1,
	)
	got := f.Create(t, 201, strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1))
	id, err := timer.ParseID(got.ID)
	require.NoError(t, err)
	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	fires := f.Dispatched.All()[:6]
	won, err := f.Store.Claim(t.Context(), session, fires)
	require.NoError(t, err)
	require.Len(t, won, 6)
	var outcomes []timer.Outcome
	for _, w := range won[:4] {
		outcomes = append(outcomes, timer.Outcome{
			Fire:       w,
			Kind:       timer.Delivered,
			FinishedMS: time.Now().UnixMilli(),
			UntilMS:    w.DueMS,
			Count:      1,
			Attempts:   2,
			LatenessMS: 3,
			StatusCode: 204,
		})
	}
	lost, _, err := f.Store.Record(t.Context(), session, outcomes, []timer.Attempt{
		{
			FireID:     won[0].FireID,
			N:          1,
			StartMS:    won[0].DueMS,
			StatusCode: 500,
			Error:      "answer 500",
			Excerpt:    "oops",
		},
		{FireID: won[0].FireID, N: 2, StartMS: won[0].DueMS + 1000, StatusCode: 204},
	})
	require.NoError(t, err)
	require.Empty(t, lost)

	var page struct {
		Items      []struct{ ID, Status, Due string }
		NextCursor string `json:"next_cursor"`
	}
	f.Call(t, http.MethodGet, "/api/v2/timers/"+got.ID+"/fires?app=shop&limit=3", "", nil).
		Into(t, 200, &page)
	require.Len(t, page.Items, 3)
	require.Equal(
		t,
		timer.FireID{Timer: id, DueMS: won[3].DueMS}.String(),
		page.Items[0].ID,
		"latest first",
	)
	require.Equal(t, "delivered", page.Items[0].Status)
	cursor := page.NextCursor
	f.Call(t, http.MethodGet, "/api/v2/timers/"+got.ID+"/fires?app=shop&limit=3&cursor="+cursor, "", nil).
		Into(t, 200, &page)
	require.Len(t, page.Items, 1)
	require.Empty(t, page.NextCursor)

	var fire struct {
		Status, NextRun string
		Attempts        int
		AttemptLog      []map[string]any `json:"attempt_log"`
	}
	f.Call(t, http.MethodGet, "/api/v2/fires/"+won[0].FireID.String()+"?app=shop", "", nil).
		Into(t, 200, &fire)
	require.Equal(t, "delivered", fire.Status)
	require.Equal(t, 2, fire.Attempts)
	require.Len(t, fire.AttemptLog, 2)
	require.Equal(t, "oops", fire.AttemptLog[0]["excerpt"])
	// A successful first attempt as executors record it, without a row for the attempt.
	once := timer.Outcome{
		Fire:       won[4],
		Kind:       timer.Delivered,
		FinishedMS: won[4].DueMS + 130,
		UntilMS:    won[4].DueMS,
		Count:      1,
		Attempts:   1,
		LatenessMS: 10,
		StatusCode: 204,
		DurationMS: 120,
	}
	lost, _, err = f.Store.Record(t.Context(), session, []timer.Outcome{once}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	fire.AttemptLog = nil
	f.Call(t, http.MethodGet, "/api/v2/fires/"+won[4].FireID.String()+"?app=shop", "", nil).
		Into(t, 200, &fire)
	require.Equal(t, []map[string]any{
		{
			"n": 1.0,
			"started_at": time.UnixMilli(won[4].DueMS + 10).
				UTC().
				Format("2006-01-02T15:04:05.000Z"),
			"duration_ms": 120.0,
			"status_code": 204.0,
		},
	}, fire.AttemptLog)
	f.Call(t, http.MethodGet, "/api/v2/fires/"+won[5].FireID.String()+"?app=shop", "", nil).
		Into(t, 200, &fire)
	require.Equal(t, "open", fire.Status)
	f.Problem(t, 404, http.MethodGet, "/api/v2/fires/"+won[0].FireID.String()+"?app=desk", "")
	f.Problem(t, 404, http.MethodGet, "/api/v2/timers/"+got.ID+"/fires?app=desk", "")
}
