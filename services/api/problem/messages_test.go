package problem_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// The form of every message about a field: the field, a colon, what was expected and what was
// found. Texts with a syntax of their own also have a byte offset.
var (
	messageForm = regexp.MustCompile(`(?s)^(at \d+: )?expected .+, found .+$`)
	detailForm  = regexp.MustCompile(`(?s)^\S.*: (at \d+: )?expected .+, found .+$`)
)

const cronSchedule = `{"kind":"cron","specs":["0 0 9 * * *"]}`

type badRequest struct{ method, path, body, field string }

// badTimers returns bodies of a timer with one invalid field each.
func badTimers() (all []badRequest) {
	const target = `{"url":"https://example.com/"}`
	schedules := map[string]string{
		`{}`:                                    "schedule.kind",
		`{"kind":"often"}`:                      "schedule.kind",
		`7`:                                     "schedule",
		`{"kind":"cron"}`:                       "schedule.specs",
		`{"kind":"cron","specs":[]}`:            "schedule.specs",
		`{"kind":"cron","specs":["every day"]}`: "schedule.specs[0]",
		`{"kind":"cron","specs":["*/60 * * * *"]}`:                                                             "schedule.specs[0]",
		`{"kind":"cron","specs":["0 0 30 2 *"]}`:                                                               "schedule.specs[0]",
		`{"kind":"cron","specs":["0 0 0 1 1 * 2200"]}`:                                                         "schedule.specs[0]",
		`{"kind":"cron","specs":["@daily"],"time_zone":"Mars/Base"}`:                                           "schedule.time_zone",
		`{"kind":"cron","specs":["@daily"],"gap":"jump"}`:                                                      "schedule.gap",
		`{"kind":"cron","specs":["@daily"],"overlap":"third"}`:                                                 "schedule.overlap",
		`{"kind":"cron","specs":["@daily"],"every":"5m"}`:                                                      "schedule.every",
		`{"kind":"cron","specs":["@daily"],"color":"red"}`:                                                     "schedule.color",
		`{"kind":"cron","specs":["@daily"],"excluded":"skip"}`:                                                 "schedule.excluded",
		`{"kind":"cron","specs":["@daily"],"calendars":["none"]}`:                                              "schedule.calendars[0]",
		`{"kind":"cron","specs":["@daily"],"max_fires":-1}`:                                                    "schedule.max_fires",
		`{"kind":"cron","specs":["@daily"],"jitter":"25h"}`:                                                    "schedule.jitter",
		`{"kind":"cron","specs":["@daily"],"start_at":"soon"}`:                                                 "schedule.start_at",
		`{"kind":"cron","specs":["@daily"],"end_at":"9999-01-01T00:00:00Z"}`:                                   "schedule.end_at",
		`{"kind":"cron","specs":["@daily"],"start_at":"2030-01-01T00:00:00Z","end_at":"2029-01-01T00:00:00Z"}`: "schedule.end_at",
		`{"kind":"at"}`:                                 "schedule.at",
		`{"kind":"at","at":"tomorrow"}`:                 "schedule.at",
		`{"kind":"at","at":"2300-01-01T00:00:00Z"}`:     "schedule.at",
		`{"kind":"delay"}`:                              "schedule.delay",
		`{"kind":"delay","delay":"soon"}`:               "schedule.delay",
		`{"kind":"delay","delay":"3651d"}`:              "schedule.delay",
		`{"kind":"delay","delay":"-1s"}`:                "schedule.delay",
		`{"kind":"delay","delay":7}`:                    "schedule.delay",
		`{"kind":"interval"}`:                           "schedule.every",
		`{"kind":"interval","every":"999ms"}`:           "schedule.every",
		`{"kind":"interval","every":"1h","phase":"1h"}`: "schedule.phase",
		`{"kind":"interval","every":"1h","anchor":"x"}`: "schedule.anchor",
	}
	for s, field := range schedules {
		all = append(all, badRequest{body: apitest.TimerWith(s, target, ""), field: field})
	}
	targets := map[string]string{
		`{}`:                           "target.url",
		`{"url":"example.com"}`:        "target.url",
		`{"url":"ftp://example.com"}`:  "target.url",
		`{"url":"https://127.0.0.1/"}`: "target.url",
		`{"kind":"smtp"}`:              "target.kind",
		`{"url":7}`:                    "target.url",
		`{"url":"https://example.com/` + strings.Repeat("a", 2048) + `"}`: "target.url",
	}
	for field, value := range map[string]string{
		"method": `"FETCH"`, "headers": `[]`, "headers.Connection": `x`, "headers.Carillon-Due": `x`, "redirects": `11`, "http2": `"maybe"`,
		"async": `"169h"`, "name": `"` + strings.Repeat("n", 33) + `"`, "body_base64": `"no base64"`, "templates": `"yes"`,
		"success.statuses": `{"statuses":"2xx"}`, "success.body": `{"body":"("}`, "tls.insecure": `{"insecure":true}`, "tls.ca": `{"ca":"x"}`,
		"tls.cert": `{"key":"x"}`, "tls.key": `{"cert":"x"}`, "tls.server_name": `{"server_name":"a b"}`, "pulsar": `{"topic":"x"}`,
		"oauth2.client_id": `{"token_url":"https://example.com/","client_id":"","secret":"x"}`,
		"oauth2.token_url": `{"token_url":"x","client_id":"c","secret":"x"}`, "query": `{"":["x"]}`,
		"secret_headers.X-A": `{"X-A":""}`, "secret_headers.X-B": `{"X-B":"REDACTED"}`, "secret_headers.X-C": `{"X-C":"a\nb"}`,
		"body": `"{{nope}}","templates":true`,
	} {
		name, sub, _ := strings.Cut(field, ".")
		if value == "x" {
			value = `{"` + sub + `":["x"]}`
		}
		targets[`{"url":"https://example.com/","`+name+`":`+value+`}`] = "target." + field
	}
	for one, field := range targets {
		all = append(all, badRequest{body: apitest.TimerWith(cronSchedule, one, ""), field: field})
	}
	for more, field := range map[string]string{
		`"mode":"any"`: "mode", `"mode":"some"`: "mode", `"targets":[{"url":"https://example.com/"}]`: "targets", `"priority":"urgent"`: "priority",
		`"labels":{"a{":"1"}`: "labels.a{", `"labels":{"a":"\u0000"}`: "labels.a", `"status":"deleted"`: "status", `"color":"red"`: "color",
		`"retry":{"attempts":21}`: "retry.attempts", `"retry":{"attempts":"x"}`: "retry.attempts", `"retry":{"wait":"25h"}`: "retry.wait", `"retry":{"factor":0.5}`: "retry.factor",
		`"retry":{"max_wait":"25h"}`: "retry.max_wait", `"retry":{"timeout":"1h"}`: "retry.timeout", `"retry":{"jitter":2}`: "retry.jitter",
		`"retry":{"give_up_after":"31d"}`: "retry.give_up_after", `"retry":{"give_up_after":"0s"}`: "retry.give_up_after",
		`"misfire":{"catch_up_window":"0s"}`: "misfire.catch_up_window", `"misfire":{"catch_up_window":"999us"}`: "misfire.catch_up_window",
		`"retry":{"no_retry":"x"}`: "retry.no_retry", `"retry":{"no_retry":"5"}`: "retry.no_retry",
		`"misfire":{"policy":"never"}`: "misfire.policy", `"misfire":{"grace":"25h"}`: "misfire.grace", `"misfire":{"grace":"0s"}`: "misfire.grace",
		`"misfire":{"catch_up_window":"3651d"}`: "misfire.catch_up_window", `"misfire":{"max_fires":5}`: "misfire.max_fires",
		`"misfire":{"policy":"fire_all","max_fires":10001}`: "misfire.max_fires", `"concurrency":{"policy":"maybe"}`: "concurrency.policy",
		`"concurrency":{"max_queue":5}`: "concurrency.max_queue", `"concurrency":{"policy":"queue_all","max_queue":10001}`: "concurrency.max_queue",
	} {
		all = append(
			all,
			badRequest{body: apitest.TimerWith(cronSchedule, target, ","+more), field: field},
		)
	}
	for app, want := range map[string]string{`""`: "app", `7`: "app", `"a\u0007"`: "app", `" a"`: "app", `"carillon"`: "app", `"` + strings.Repeat("a", 65) + `"`: "app"} {
		all = append(
			all,
			badRequest{
				body: strings.Replace(
					apitest.TimerWith(cronSchedule, target, ""),
					`"shop"`,
					app,
					1,
				),
				field: want,
			},
		)
	}
	return append(
		all,
		badRequest{
			body:  `{}`,
			field: "app",
		},
		badRequest{body: `{"app":"a","name":"b","schedule":` + cronSchedule + `}`, field: "target"},
		badRequest{body: `7`, field: "body"},
		badRequest{body: `[]`, field: "body"},
	)
}

// TestMessagesHaveOneForm checks that every message about a field has one form, whether it comes
// from the description, this package or a library.
func TestMessagesHaveOneForm(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Egress = egress.NewPolicy(egress.Options{}) })
	got, _ := f.Active(
		t,
		"one-shot",
		`{"kind":"at","at":"`+apitest.RFC(time.Now().Add(time.Hour))+`"}`,
	)
	requests := badTimers()
	for i := range requests {
		requests[i].method, requests[i].path = http.MethodPost, "/api/v2/timers"
	}
	of := func(method, path, body, field string) {
		requests = append(requests, badRequest{method, path, body, field})
	}
	post, put, get := http.MethodPost, http.MethodPut, http.MethodGet
	of(http.MethodPatch, apitest.TimerPath(got.ID, ""), `{}`, "status")
	of(post, apitest.TimerPath(got.ID, "/pause"), `{"until":"2020-01-01T00:00:00Z"}`, "until")
	of(post, apitest.TimerPath(got.ID, "/pause"), `{"reason":"a\u0000"}`, "reason")
	of(post, apitest.TimerPath(got.ID, "/reschedule"), `{}`, "at")
	of(
		post,
		apitest.TimerPath(got.ID, "/reschedule"),
		`{"at":"2030-01-01T00:00:00Z","delay":"1s"}`,
		"at",
	)
	of(post, apitest.TimerPath(got.ID, "/reschedule"), `{"delay":"0s"}`, "delay")
	of(post, apitest.TimerPath(got.ID, "/backfills"), `{"to":"2026-01-01T00:00:00Z"}`, "from")
	of(post, apitest.TimerPath(got.ID, "/backfills"), `{"from":"2190-01-01T00:00:00Z"}`, "from")
	of(
		post,
		apitest.TimerPath(got.ID, "/backfills"),
		`{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`,
		"to",
	)
	of(
		post,
		apitest.TimerPath(got.ID, "/backfills"),
		`{"from":"1960-01-01T00:00:00Z","to":"1960-01-02T00:00:00Z"}`,
		"from",
	)
	of(
		post,
		apitest.TimerPath(got.ID, "/backfills"),
		`{"from":"2020-01-01T00:00:00Z","to":"2022-01-01T00:00:00Z"}`,
		"to",
	)
	of(
		post,
		apitest.TimerPath(got.ID, "/backfills"),
		`{"from":"2020-01-01T00:00:00Z","to":"2190-01-01T00:00:00Z"}`,
		"to",
	)
	of(get, apitest.TimerPath(got.ID, "/fires")+"&limit=0", "", "query.limit")
	of(get, apitest.TimerPath(got.ID, "/fires")+"&limit=x", "", "query.limit")
	of(get, apitest.TimerPath(got.ID, "/fires")+"&cursor=x", "", "query.cursor")
	of(get, apitest.TimerPath(got.ID, "/fires")+"&state=lost", "", "query.state[0]")
	of(get, "/api/v2/timers", "", "query.app")
	of(get, "/api/v2/timers?app=shop&status=lost", "", "query.status")
	of(get, "/api/v2/timers/x?app=shop", "", "path.id")
	of(get, "/api/v2/fires/x?app=shop", "", "path.id")
	of(put, "/api/v2/apps/shop/settings", `{"rate":-1}`, "rate")
	of(put, "/api/v2/apps/shop/settings", `{"rate":0.0001}`, "rate")
	of(put, "/api/v2/apps/shop/settings", `{"burst":-1}`, "burst")
	of(put, "/api/v2/apps/shop/settings", `{"concurrent":1000001}`, "concurrent")
	of(put, "/api/v2/apps/shop/settings", `{"allow":["not a rule"]}`, "allow[0]")
	of(post, "/api/v2/apps/shop/redrives", `{"fires":["x"]}`, "fires[0]")
	of(post, "/api/v2/apps/shop/redrives", `{"fires":[]}`, "fires")
	of(post, "/api/v2/apps/shop/redrives", `{"failure":"boredom"}`, "failure")
	of(
		post,
		"/api/v2/apps/shop/redrives",
		`{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`,
		"to",
	)
	of(post, "/api/v2/apps/shop/redrives", `{"limit":0}`, "limit")
	of(post, "/api/v2/apps/shop/keys", `{"name":"","scope":"read"}`, "name")
	of(post, "/api/v2/apps/shop/keys", `{"name":"x","scope":"root"}`, "scope")
	of(post, "/api/v2/apps/shop/signing-keys", `{"kind":"rot13"}`, "kind")
	of(put, "/api/v2/calendars/holidays?app=shop", `{"excluded_dates":["x"]}`, "excluded_dates[0]")
	of(
		put,
		"/api/v2/calendars/holidays?app=shop",
		`{"excluded_weekdays":["x"]}`,
		"excluded_weekdays[0]",
	)
	of(
		put,
		"/api/v2/calendars/holidays?app=shop",
		`{"allowed_times":[{"from":"9","to":"10:00"}]}`,
		"allowed_times[0].from",
	)
	of(put, "/api/v2/calendars/holidays?app=shop", `{"time_zone":"Mars/Base"}`, "time_zone")
	of(post, "/api/v2/schedules/preview", `{"schedule":`+cronSchedule+`,"count":0}`, "count")
	of(post, "/api/v2/schedules/preview", `{"schedule":`+cronSchedule+`,"timer_id":"7"}`, "app")
	of(
		post,
		"/api/v2/schedules/preview",
		`{"schedule":{"kind":"cron","specs":["@daily"],"calendars":["x"]}}`,
		"schedule.calendars[0]",
	)
	require.Greater(t, len(requests), 120)
	for _, r := range requests {
		p := f.Problem(t, 422, r.method, r.path, r.body)
		require.Regexp(t, detailForm, p.Detail, "%s %s %s", r.method, r.path, r.body)
		require.NotEmpty(t, p.Errors, r.body)
		var fields []string
		for _, e := range p.Errors {
			require.Regexp(t, messageForm, e.Message, "%s %s %s", r.method, r.path, r.body)
			fields = append(fields, strings.TrimPrefix(e.Location, "body."))
			requireNoGo(t, e.Message)
		}
		require.Contains(t, fields, r.field, "%s %s", r.body, p.Detail)
		t.Log(p.Detail)
	}
}

// leaks match texts of encoding/json and reflect, which mean nothing to a caller.
var leaks = regexp.MustCompile(
	`json:|\bGo\b|struct|unmarshal|\bapi\.|\btimer\.[A-Z]|\*[A-Za-z]|interface|map\[|reflect|invalid character|\bnil\b|%!`,
)

func requireNoGo(t *testing.T, msg string) {
	t.Helper()
	require.NotRegexp(t, leaks, msg)
}

// TestV1MessagesHaveOneForm checks that v1 answers name JSON kinds and the caller's fields, and no
// Go types.
func TestV1MessagesHaveOneForm(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for body, want := range map[string]string{
		`7`:                             "body: expected a JSON object, found a number",
		`[1]`:                           "body: expected a JSON object, found a list",
		`"x"`:                           "body: expected a JSON object, found a text",
		`true`:                          "body: expected a JSON object, found true or false",
		``:                              "body: expected a JSON object, found nothing",
		`{"app":`:                       "body: expected a JSON object, found other text from byte 7 on",
		`{"app":7}`:                     "app: expected a text, found a number",
		`{"app":true}`:                  "app: expected a text, found true or false",
		`{"app":{}}`:                    "app: expected a text, found an object",
		`{"name":[]}`:                   "name: expected a text, found a list",
		`{"cron":1.5}`:                  "cron: expected a text, found a number",
		`{"notifyHTTPParam":7}`:         "notifyHTTPParam: expected an object, found a number",
		`{"notifyHTTPParam":{"url":7}}`: "notifyHTTPParam.url: expected a text, found a number",
		`{"notifyHTTPParam":{"header":{"X":"1"}}}`:   "notifyHTTPParam.header: expected a list, found a text",
		`{"notifyHTTPParam":{"header":[]}}`:          "notifyHTTPParam.header: expected an object, found a list",
		`{"notifyHTTPParam":{"header":{"X":[1]}}}`:   "notifyHTTPParam.header: expected a text, found a number",
		"{\"app\":\"\xff\"}":                         "body: expected UTF-8 text, found other bytes",
		`{"app":"\ud83d"}`:                           "body: expected whole characters, found a \\u escape of half of one: a surrogate without the other",
		`{"app":"a","name":"b","cron":"61 * * * *"}`: `cron: at 0: expected a minute from 0 to 59, found "61"`,
	} {
		require.Equal(t, want, f.V1(t, 400, http.MethodPost, "/api/timer/v1/def", body).Msg, body)
	}
}

// TestV1AnswersOfRandomBodies checks that any body gets an answer in v1's form without internals of
// this program.
func TestV1AnswersOfRandomBodies(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const seed = 11
	random := rand.New(rand.NewPCG(seed, seed))
	names := []string{
		"id",
		"app",
		"name",
		"status",
		"cron",
		"notifyHTTPParam",
		"url",
		"method",
		"header",
		"body",
		"X-A",
	}
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(9); {
		case n == 0:
			return nil
		case n == 1:
			return random.IntN(2) == 0
		case n == 2:
			return random.Float64() * 1e20
		case n == 3:
			return random.IntN(1000) - 500
		case n < 6 || depth == 0:
			return []string{"", "shop", "*/5 * * * *", "https://example.com/", "\u0000", "POST"}[random.IntN(6)]
		case n == 6:
			return []any{value(depth - 1), value(depth - 1)}
		default:
			object := map[string]any{}
			for range random.IntN(6) {
				object[names[random.IntN(len(names))]] = value(depth - 1)
			}
			return object
		}
	}
	for i := range 2000 {
		body, err := json.Marshal(value(3))
		require.NoError(t, err)
		if i%7 == 0 && len(body) > 1 {
			body = body[:random.IntN(len(body))]
		}
		path := []string{"def", "enable", "unable"}[i%3]
		a := f.Call(t, http.MethodPost, "/api/timer/v1/"+path, string(body), nil)
		var answer struct {
			Code int
			Msg  string
		}
		require.NoError(t, json.Unmarshal([]byte(a.Body), &answer), a.Body)
		if a.Status == 200 {
			continue
		}
		require.Contains(t, []int{400, 404, 409}, a.Status, "%s: %s", body, a.Body)
		require.Equal(t, a.Status, answer.Code)
		requireNoGo(t, answer.Msg)
		if a.Status == 400 {
			require.Regexp(t, detailForm, answer.Msg, string(body))
		}
	}
}
