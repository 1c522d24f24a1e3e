package timers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2ShowsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(
		t,
		201,
		apitest.With(
			`{"kind":"cron","specs":["0 9 * * 1-5"],"time_zone":"Europe/Berlin","gap":"skip","overlap":"both",
		"start_at":"2030-01-01T00:00:00+01:00","end_at":"2031-01-01T00:00:00Z","max_fires":10,"jitter":"30s"}`,
			`"misfire":{"policy":"fire_all","grace":"2m","catch_up_window":"24h","max_fires":7},"concurrency":{"policy":"queue_all","max_queue":3}`,
		),
	)
	require.Equal(t, map[string]any{
		"kind":      "cron",
		"specs":     []any{"0 9 * * 1-5"},
		"time_zone": "Europe/Berlin",
		"gap":       "skip",
		"overlap":   "both",
		"start_at":  "2029-12-31T23:00:00Z",
		"end_at":    "2031-01-01T00:00:00Z",
		"max_fires": 10.,
		"jitter":    "30s",
	}, got.Schedule)
	require.Equal(
		t,
		map[string]any{
			"policy":          "fire_all",
			"grace":           "2m0s",
			"catch_up_window": "24h0m0s",
			"max_fires":       7.,
		},
		got.Misfire,
	)
	require.Equal(t, map[string]any{"policy": "queue_all", "max_queue": 3.}, got.Concurrency)

	body := strings.Replace(
		apitest.With(
			`{"kind":"interval","every":"10m","anchor":"2026-01-01T00:00:00Z","phase":"1m"}`,
			`"status":"active"`,
		),
		"bill",
		"tick",
		1,
	)
	got = f.Create(t, 201, body)
	require.Equal(
		t,
		map[string]any{
			"kind":   "interval",
			"every":  "10m0s",
			"anchor": "2026-01-01T00:00:00Z",
			"phase":  "1m0s",
		},
		got.Schedule,
	)
	require.Equal(
		t,
		map[string]any{"policy": "fire_once", "grace": "1m0s"},
		got.Misfire,
		"defaults are shown",
	)
	require.Equal(t, map[string]any{"policy": "allow"}, got.Concurrency)
	due, err := time.Parse(time.RFC3339, got.NextDue)
	require.NoError(t, err)
	require.Equal(t, 1, due.Minute()%10)

	// A default that is written out gives the same definition.
	same := strings.Replace(body, `"phase":"1m"}`, `"phase":"60s"}`, 1)
	same = strings.Replace(
		same,
		`{"status"`,
		`{"misfire":{"policy":"fire_once","grace":"60s"},"concurrency":{"policy":"allow"},"status"`,
		1,
	)
	require.Equal(t, got.ID, f.Create(t, 200, same).ID)
	plain := strings.Replace(apitest.V2Body, "bill", "plain", 1)
	first := f.Create(t, 201, plain)
	plain = strings.Replace(
		plain,
		`* *"]`,
		`* *"],"time_zone":"UTC","gap":"shift","overlap":"first"`,
		1,
	)
	require.Equal(t, first.ID, f.Create(t, 200, plain).ID)
}

func TestV2NamesAllBadFieldsOfPolicies(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for more, want := range map[string]string{
		`"misfire":{"policy":"often"}`:                            "body.misfire.policy",
		`"misfire":{"grace":"soon"}`:                              "body.misfire.grace",
		`"misfire":{"grace":"0s"}`:                                "body.misfire.grace",
		`"misfire":{"grace":"25h"}`:                               "body.misfire.grace",
		`"misfire":{"policy":"skip","max_fires":3}`:               "body.misfire.max_fires",
		`"concurrency":{"policy":"queue"}`:                        "body.concurrency.policy",
		`"concurrency":{"policy":"skip","max_queue":3}`:           "body.concurrency.max_queue",
		`"concurrency":{"policy":"queue_all","max_queue":100000}`: "body.concurrency.max_queue",
	} {
		p := f.Problem(
			t,
			422,
			http.MethodPost,
			"/api/v2/timers",
			apitest.With(`{"kind":"cron","specs":["@daily"]}`, more),
		)
		require.Equal(t, want, p.Errors[0].Location, more)
	}
	p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", strings.Replace(
		apitest.With(
			`{"kind":"cron","specs":["@often"]}`,
			`"misfire":{"grace":"-1s"},"retry":{"attempts":99}`,
		),
		"https://example.com/ring",
		"ftp://x",
		1,
	))
	var all []string
	for _, e := range p.Errors {
		all = append(all, e.Location)
	}
	require.ElementsMatch(
		t,
		[]string{
			"body.schedule.specs[0]",
			"body.misfire.grace",
			"body.retry.attempts",
			"body.target.url",
		},
		all,
	)
	p = f.Problem(
		t,
		422,
		http.MethodPost,
		"/api/v2/timers",
		apitest.With(`{"kind":"cron","specs":["@daily"],"calendars":["a","b"]}`, ""),
	)
	require.Len(t, p.Errors, 2)
	require.Equal(t, "body.schedule.calendars[0]", p.Errors[0].Location)
	require.Equal(t, "body.schedule.calendars[1]", p.Errors[1].Location)
}

func TestV2EditMakesAVersion(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(
		t,
		201,
		strings.Replace(apitest.V2Body, `{"app"`, `{"status":"active","app"`, 1),
	)
	path := apitest.TimerPath(got.ID, "")
	edited := f.Do(
		t,
		200,
		http.MethodPatch,
		path,
		`{"schedule":{"kind":"cron","specs":["0 0 8 * * *"]}}`,
	)
	require.Equal(t, 2, edited.Version)
	require.Equal(t, "active", edited.Status)
	require.Equal(t, got.Target, edited.Target, "what is not named stays")
	require.Contains(t, edited.NextDue, "T08:00:00.000Z")

	edited = f.Do(
		t,
		200,
		http.MethodPatch,
		path,
		`{"schedule":{"kind":"cron","specs":["0 0 8 * * *"],"gap":"shift"}}`,
	)
	require.Equal(t, 2, edited.Version, "nothing changed")
	edited = f.Do(t, 200, http.MethodPatch, path, `{"retry":{"attempts":5},"status":"inactive"}`)
	require.Equal(t, 3, edited.Version)
	require.Equal(t, "inactive", edited.Status)
	require.EqualValues(t, 5, edited.Retry["attempts"])
	edited = f.Do(
		t,
		200,
		http.MethodPatch,
		path,
		`{"retry":{},"misfire":{"policy":"skip"},"concurrency":{"policy":"skip"},"if_version":3}`,
	)
	require.Equal(t, 4, edited.Version)
	require.EqualValues(
		t,
		3,
		edited.Retry["attempts"],
		"an object replaces the old one, and what is left out has its default",
	)
	require.Equal(t, "skip", edited.Misfire["policy"])

	p := f.Problem(t, 409, http.MethodPatch, path, `{"retry":{"attempts":9},"if_version":3}`)
	require.Equal(t, "body.if_version", p.Errors[0].Location)
	f.Problem(t, 409, http.MethodPatch, path, `{"status":"active","if_version":3}`)
	require.Equal(
		t,
		"active",
		f.Do(t, 200, http.MethodPatch, path, `{"status":"active","if_version":4}`).Status,
	)

	for body, want := range map[string]string{
		`{}`: "body.status",
		`{"schedule":{"kind":"cron","specs":["x"]}}`: "body.schedule.specs[0]",
		`{"target":{"url":"x"}}`:                     "body.target.url",
		`{"status":"paused"}`:                        "body.status",
		`{"name":"other"}`:                           "body.name",
		`{"schedule":{"kind":"cron","specs":["@daily"],"calendars":["none"]}}`: "body.schedule.calendars[0]",
	} {
		p := f.Problem(t, 422, http.MethodPatch, path, body)
		require.Equal(t, want, p.Errors[0].Location, body)
	}
	f.Problem(t, 404, http.MethodPatch, "/api/v2/timers/1?app=shop", `{"retry":{}}`)
	require.Equal(t, 4, f.Do(t, 200, http.MethodGet, path, "").Version)
}

// TestV2EditOfTheScheduleKeepsTheMisfirePolicy changes the kind of the schedule, whose default the
// misfire policy is, and of which the store has none then.
func TestV2EditOfTheScheduleKeepsTheMisfirePolicy(t *testing.T) {
	t.Parallel()
	const at = `{"kind":"at","at":"2100-01-01T00:00:00Z"}`
	const delay = `{"kind":"delay","delay":"1h"}`
	const cron = `{"kind":"cron","specs":["0 9 * * *"]}`
	const every = `{"kind":"interval","every":"10m"}`
	for _, c := range []struct {
		from, misfire, to, more, want string
	}{
		{at, `"misfire":{"policy":"fire_all"}`, cron, ``, "fire_all"},
		{delay, `"misfire":{"policy":"fire_all","max_fires":7}`, every, ``, "fire_all"},
		{at, `"misfire":{"policy":"fire_once"}`, cron, ``, "fire_once"},
		{cron, `"misfire":{"policy":"fire_once","grace":"2m"}`, at, ``, "fire_once"},
		{cron, `"misfire":{"policy":"skip"}`, delay, ``, "skip"},
		{cron, `"misfire":{"policy":"fire_all"}`, every, ``, "fire_all"},
		// What a read shows stays, also if nobody asked for it.
		{at, ``, cron, ``, "fire_all"},
		{cron, ``, at, ``, "fire_once"},
		{cron, ``, every, ``, "fire_once"},
		{at, ``, cron, `,"misfire":{}`, "fire_once"},
		{cron, `"misfire":{"policy":"skip"}`, at, `,"misfire":{"grace":"2m"}`, "fire_all"},
	} {
		f := apitest.Setup(t)
		made := f.Create(t, 201, apitest.With(c.from, c.misfire))
		dry, done := dryAndReal(
			t, f, http.MethodPatch, apitest.TimerPath(made.ID, ""),
			`{"schedule":`+c.to+c.more+`}`,
		)
		require.Equal(t, dry, done)
		got := f.Do(t, 200, http.MethodGet, apitest.TimerPath(made.ID, ""), "")
		require.Equal(t, c.want, got.Misfire["policy"], "%+v", c)
		if c.more == "" {
			require.Equal(t, made.Misfire, got.Misfire, "%+v", c)
		}
	}
}

// TestV2EditsAtOnce checks that concurrent edits of different parts are all kept.
func TestV2EditsAtOnce(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(t, 201, apitest.V2Body)
	path := apitest.TimerPath(got.ID, "")
	bodies := []string{
		`{"schedule":{"kind":"cron","specs":["0 0 8 * * *"]}}`,
		`{"retry":{"attempts":5}}`,
		`{"misfire":{"policy":"skip"}}`,
		`{"concurrency":{"policy":"skip"}}`,
		`{"target":{"url":"https://example.com/other"}}`,
	}
	var wg sync.WaitGroup
	for _, b := range bodies {
		wg.Go(func() {
			if a := f.Call(t, http.MethodPatch, path, b, nil); a.Status != 200 {
				t.Errorf("%s answered %d: %s", b, a.Status, a.Body)
			}
		})
	}
	wg.Wait()
	end := f.Do(t, 200, http.MethodGet, path, "")
	require.Equal(t, 1+len(bodies), end.Version)
	require.Equal(t, []any{"0 0 8 * * *"}, end.Schedule["specs"])
	require.EqualValues(t, 5, end.Retry["attempts"])
	require.Equal(t, "skip", end.Misfire["policy"])
	require.Equal(t, "skip", end.Concurrency["policy"])
	require.Equal(t, "https://example.com/other", end.Target["url"])
}

func TestV2PutByName(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const path = "/api/v2/timers"
	a := f.Call(t, http.MethodPut, path, apitest.V2Body, nil)
	var first apitest.V2Timer
	a.Into(t, 201, &first)
	require.Equal(t, apitest.TimerPath(first.ID, ""), a.Header.Get("Location"))
	require.Equal(t, "inactive", first.Status)
	same := f.Do(t, 200, http.MethodPut, path, apitest.V2Body)
	require.Equal(t, first.ID, same.ID)
	require.Equal(t, 1, same.Version)

	body := strings.Replace(apitest.V2Body, "0 0 9", "0 0 8", 1)
	edited := f.Do(
		t,
		200,
		http.MethodPut,
		path,
		strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1),
	)
	require.Equal(t, first.ID, edited.ID)
	require.Equal(t, 2, edited.Version)
	require.Equal(t, "active", edited.Status)
	require.Equal(
		t,
		"active",
		f.Do(t, 200, http.MethodPut, path, body).Status,
		"a status that is left out stays",
	)
	f.Do(
		t,
		200,
		http.MethodPost,
		apitest.TimerPath(first.ID, "/pause"),
		`{"reason":"stock-taking"}`,
	)
	require.Equal(
		t,
		"paused",
		f.Do(
			t,
			200,
			http.MethodPut,
			path,
			strings.Replace(body, `{"app"`, `{"status":"active","app"`, 1),
		).Status,
		"a pause stays",
	)
	require.Equal(t, "active", f.Do(
		t, 200, http.MethodPatch, apitest.TimerPath(first.ID, ""), `{"status":"active"}`,
	).Status, "a patch ends it")
	f.Do(t, 200, http.MethodPost, apitest.TimerPath(first.ID, "/pause"), "")
	require.Equal(
		t,
		"inactive",
		f.Do(
			t,
			200,
			http.MethodPut,
			path,
			strings.Replace(body, `{"app"`, `{"status":"inactive","app"`, 1),
		).Status,
	)

	require.Equal(t, 204, f.Call(t, http.MethodDelete, path+"?app=shop&name=bill", "", nil).Status)
	f.Problem(t, 404, http.MethodDelete, path+"?app=shop&name=bill", "")
	f.Problem(t, 404, http.MethodGet, apitest.TimerPath(first.ID, ""), "")
	require.NotEqual(t, first.ID, f.Do(t, 201, http.MethodPut, path, apitest.V2Body).ID)

	p := f.Problem(
		t,
		422,
		http.MethodPut,
		path,
		strings.Replace(apitest.V2Body, "0 0 9 * * *", "x", 1),
	)
	require.Equal(t, "body.schedule.specs[0]", p.Errors[0].Location)
	p = f.Problem(
		t,
		422,
		http.MethodPut,
		path,
		strings.Replace(apitest.V2Body, "shop", "carillon", 1),
	)
	require.Equal(t, "body.app", p.Errors[0].Location)
}

// TestV2PutsAtOnce puts and deletes one name concurrently. Every answer must show a timer that
// existed, and one complete definition remains.
func TestV2PutsAtOnce(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			body := strings.NewReplacer("0 0 9", fmt.Sprintf("0 %d 9", i), `"x"`, fmt.Sprintf(`"%d"`, i)).
				Replace(apitest.V2Body)
			if a := f.Call(
				t,
				http.MethodPut,
				"/api/v2/timers",
				body,
				nil,
			); a.Status != 201 &&
				a.Status != 200 {
				t.Errorf("put %d answered %d: %s", i, a.Status, a.Body)
			}
			if i%4 == 0 {
				f.Call(t, http.MethodDelete, "/api/v2/timers?app=shop&name=bill", "", nil)
			}
		})
	}
	wg.Wait()
	var last apitest.V2Timer
	f.Call(t, http.MethodPut, "/api/v2/timers", apitest.V2Body, nil) // a delete may have come last
	f.Call(t, http.MethodPut, "/api/v2/timers", apitest.V2Body, nil).Into(t, 200, &last)
	var list struct{ Items []apitest.V2Timer }
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&name=bill", "", nil).Into(t, 200, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, last.ID, list.Items[0].ID)
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&name=bill&status=active", "", nil).
		Into(t, 200, &list)
	require.Empty(t, list.Items)
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&name=nobody", "", nil).Into(t, 200, &list)
	require.Empty(t, list.Items)
}

func TestV2ShowsFiresOfEveryCause(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(t, 201, apitest.With(`{"kind":"delay","delay":"1h"}`, `"status":"active"`))
	id, err := timer.ParseID(got.ID)
	require.NoError(t, err)
	var fire map[string]any
	fires := f.Dispatched.All()
	require.Len(t, fires, 1)
	f.Call(t, http.MethodGet, "/api/v2/fires/"+fires[0].FireID.String()+"?app=shop", "", nil).
		Into(t, 200, &fire)
	require.Equal(t, "schedule", fire["cause"])
	require.Equal(t, "run", fire["waits_for"])
	require.Equal(t, id.String(), fire["timer_id"])
}

// TestAnEditThatDeactivatesPlansNothing edits active timers and makes them inactive in one request. No
// fire has the new definition, and a request that fails leaves both as they were.
func TestAnEditThatDeactivatesPlansNothing(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	schedule := func(every string) string { return `{"kind":"interval","every":"` + every + `"}` }
	put := func(name, every string) string {
		return strings.Replace(
			apitest.With(schedule(every), `"status":"inactive"`), "bill", name, 1)
	}
	const path = "/api/v2/timers"
	for name, change := range map[string]func(tm apitest.V2Timer){
		"put": func(apitest.V2Timer) { f.Do(t, 200, http.MethodPut, path, put("put", "1s")) },
		"if": func(apitest.V2Timer) {
			a := f.Call(t, http.MethodPut, path, put("if", "1s"), match(`"1"`))
			require.Equal(t, http.StatusOK, a.Status, a.Body)
			a = f.Call(t, http.MethodPut, path, put("if", "1s"), match(`"1"`))
			require.Equal(t, http.StatusPreconditionFailed, a.Status, "it was done")
		},
		"batch": func(apitest.V2Timer) { batch(t, f, `,"put":true`, put("batch", "1s")) },
		"patch": func(tm apitest.V2Timer) {
			f.Do(t, 200, http.MethodPatch, apitest.TimerPath(tm.ID, ""),
				`{"status":"inactive","schedule":`+schedule("1s")+`}`)
		},
		"import": func(apitest.V2Timer) {
			require.Equal(t, 1, importInto(t, f, "shop", "", put("import", "1s")).Changed)
		},
	} {
		tm, id := f.Active(t, name, schedule("2400h"))
		stale := f.Call(t, http.MethodPut, path, put(name, "3s"), match(`"9"`))
		require.Equal(t, http.StatusPreconditionFailed, stale.Status, stale.Body)
		stale = f.Call(t, http.MethodPut, path, put(name, "2400h"), match(`"9"`))
		require.Equal(t, http.StatusPreconditionFailed, stale.Status, "the definition is the same")
		require.Equal(
			t,
			"active",
			f.Do(t, 200, http.MethodGet, apitest.TimerPath(tm.ID, ""), "").Status,
		)
		change(tm)
		now := f.Do(t, 200, http.MethodGet, apitest.TimerPath(tm.ID, ""), "")
		require.Equal(t, "inactive", now.Status, name)
		require.Equal(t, 2, now.Version, name)
		for _, fire := range f.Dispatched.All() {
			require.False(t, fire.Timer == id && fire.Version == 2, "%s planned %v", name, fire)
		}
	}
}

// TestV2PutIntoADeletedApp checks that only a timer that exists is taken for one.
func TestV2PutIntoADeletedApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Create(t, 201, apitest.V2Body)
	require.Equal(
		t,
		202,
		f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop", "", nil).Status,
	)
	other := strings.Replace(apitest.V2Body, "bill", "new", 1)
	for _, body := range []string{apitest.V2Body, other} {
		for _, header := range []map[string]string{nil, {"If-None-Match": "*"}} {
			a := f.Call(t, http.MethodPut, "/api/v2/timers", body, header)
			require.Equal(t, http.StatusConflict, a.Status, a.Body)
			require.Contains(t, a.Body, "wait until its job delete_app is done")
		}
	}
	got := batch(t, f, `,"put":true`, other)
	require.Equal(t, http.StatusConflict, got.Items[0].Error.Status)
}
