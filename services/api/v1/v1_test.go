package v1_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV1AsCallersUseIt makes the calls of an existing caller, in order.
func TestV1AsCallersUseIt(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", apitest.V1Body).ID
	require.Positive(t, id)
	require.Less(t, int64(id), int64(1)<<53)
	require.Empty(t, f.Dispatched.All(), "created inactive")

	path := fmt.Sprintf("/api/timer/v1/def?app=shop&id=%d", id)
	require.Equal(t, map[string]any{
		"id": float64(
			id,
		),
		"app":    "shop",
		"name":   "bill",
		"status": "inactive",
		"cron":   "*/10 * * * * *",
		"notifyHTTPParam": map[string]any{
			"url":    "https://example.com/ring",
			"method": "POST",
			"header": map[string]any{"X-A": []any{"1", "2"}},
			"body":   `{"a": 1}`,
		},
	}, f.V1(t, 200, http.MethodGet, path, "").Data)

	f.V1(t, 200, http.MethodPost, "/api/timer/v1/enable", fmt.Sprintf(`{"id":%d,"app":"shop"}`, id))
	require.GreaterOrEqual(
		t,
		len(f.Dispatched.All()),
		299,
		"what is due by the horizon was committed and passed on",
	)
	require.Equal(t, "active", f.V1(t, 200, http.MethodGet, path, "").Data["status"])
	// Repeating it is not an error.
	f.V1(t, 200, http.MethodPost, "/api/timer/v1/enable", fmt.Sprintf(`{"id":%d,"app":"shop"}`, id))

	// The id is text.
	f.V1(
		t,
		200,
		http.MethodPost,
		"/api/timer/v1/unable",
		fmt.Sprintf(`{"id":"%d","app":"shop"}`, id),
	)
	require.Equal(t, "inactive", f.V1(t, 200, http.MethodGet, path, "").Data["status"])

	f.V1(t, 200, http.MethodDelete, "/api/timer/v1/def", fmt.Sprintf(`{"id":%d,"app":"shop"}`, id))
	f.V1(t, 404, http.MethodGet, path, "")
	again := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", apitest.V1Body).ID
	require.NotEqual(t, id, again, "a deleted timer's name is free")
}

func TestV1RepeatedCreate(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", apitest.V1Body).ID
	withMore := strings.Replace(apitest.V1Body, `{"app"`, `{"owner":"me","status":2,"app"`, 1)
	require.Equal(
		t,
		id,
		f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", withMore).ID,
		"identical, and unknown fields are ignored",
	)
	other := strings.Replace(apitest.V1Body, "*/10", "*/20", 1)
	require.Contains(t, f.V1(t, 409, http.MethodPost, "/api/timer/v1/def", other).Msg, "name")
	elsewhere := strings.Replace(other, `"shop"`, `"desk"`, 1)
	require.NotEqual(
		t,
		id,
		f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", elsewhere).ID,
		"another app's names are its own",
	)
}

// TestV1TakesTheLastOfTwo gives fields twice. Nothing of the first is left.
func TestV1TakesTheLastOfTwo(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const first = `"notifyHTTPParam":{"url":"https://example.com/a","method":"PUT","header":{"X-A":["1"]},"body":"a"}`
	for name, c := range map[string]struct {
		fields string
		want   map[string]any
	}{
		"object": {
			first + `,"notifyHTTPParam":{"url":"https://example.com/b"}`,
			map[string]any{"url": "https://example.com/b", "method": "POST", "body": ""},
		},
		"other-case": {
			first + `,"NotifyHttpParam":{"url":"https://example.com/b","body":"b"}`,
			map[string]any{"url": "https://example.com/b", "method": "POST", "body": "b"},
		},
		"header": {
			`"notifyHTTPParam":{"header":{"X-A":["1"],"X-B":["2"]},"url":"https://example.com/b","header":{"X-B":["3"]}}`,
			map[string]any{
				"url": "https://example.com/b", "method": "POST", "body": "",
				"header": map[string]any{"X-B": []any{"3"}},
			},
		},
		"values": {
			`"notifyHTTPParam":{"header":{"X-A":["1","2"],"X-A":["3"]},"url":"https://example.com/b"}`,
			map[string]any{
				"url": "https://example.com/b", "method": "POST", "body": "",
				"header": map[string]any{"X-A": []any{"3"}},
			},
		},
	} {
		body := `{"app":"x","app":"shop","name":"` + name + `","cron":"@daily","cron":"@hourly",` +
			c.fields + `}`
		id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", body).ID
		path := fmt.Sprintf("/api/timer/v1/def?app=shop&id=%d", id)
		got := f.V1(t, 200, http.MethodGet, path, "").Data
		require.Equal(t, "@hourly", got["cron"])
		require.Equal(t, c.want, got["notifyHTTPParam"], name)
	}
	r := f.V1(t, 400, http.MethodPost, "/api/timer/v1/def",
		`{"app":"shop","name":"null","cron":"@daily",`+first+`,"notifyHTTPParam":null}`)
	require.Contains(t, r.Msg, "notifyHTTPParam.url: expected a URL")
}

// TestV1HasNoDryRuns checks that a dry run of a caller who knows v2 writes nothing.
func TestV1HasNoDryRuns(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const dry = "?dry_run=true"
	a := f.V1(t, 400, http.MethodPost, "/api/timer/v1/def"+dry, apitest.V1Body)
	require.Contains(t, a.Msg, "dry_run: v1 has no dry runs")
	id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", apitest.V1Body).ID
	ref := fmt.Sprintf(`{"id":%d,"app":"shop"}`, id)
	f.V1(t, 400, http.MethodPost, "/api/timer/v1/enable"+dry, ref)
	f.V1(t, 400, http.MethodDelete, "/api/timer/v1/def"+dry, ref)
	got := f.V1(t, 200, http.MethodGet, fmt.Sprintf("/api/timer/v1/def?app=shop&id=%d", id), "")
	require.Equal(t, "inactive", got.Data["status"])
}

// TestV1MethodsOfOtherSystems checks that methods may be in lower case, as some systems write them.
func TestV1MethodsOfOtherSystems(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	body := strings.Replace(apitest.V1Body, `"POST"`, `"post"`, 1)
	require.NotEqual(t, apitest.V1Body, body)
	id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", body).ID
	got := f.V1(t, 200, http.MethodGet, fmt.Sprintf("/api/timer/v1/def?app=shop&id=%d", id), "")
	require.Equal(t, "POST", got.Data["notifyHTTPParam"].(map[string]any)["method"])
}

func TestV1OthersTimersAreNotFound(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	id := f.V1(t, 200, http.MethodPost, "/api/timer/v1/def", apitest.V1Body).ID
	ref := fmt.Sprintf(`{"id":%d,"app":"desk"}`, id)
	f.V1(t, 404, http.MethodPost, "/api/timer/v1/enable", ref)
	f.V1(t, 404, http.MethodPost, "/api/timer/v1/unable", ref)
	f.V1(t, 404, http.MethodDelete, "/api/timer/v1/def", ref)
	f.V1(t, 404, http.MethodGet, fmt.Sprintf("/api/timer/v1/def?app=desk&id=%d", id), "")
	f.V1(t, 404, http.MethodPost, "/api/timer/v1/enable", `{"id":1,"app":"shop"}`)
	require.Empty(t, f.Dispatched.All())
}

func TestV1NamesTheBadField(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, c := range []struct{ from, to, want string }{
		{`"shop"`, `""`, "app: expected 1 to 64 bytes of text, found nothing"},
		{`"shop"`, `"` + strings.Repeat("a", 65) + `"`, "app: expected at most 64 bytes, found 65"},
		{`"shop"`, `"a\u0007b"`, "app: expected characters that can be printed, found others"},
		{`"shop"`, `7`, "app: expected a text, found a number"},
		{`"bill"`, `""`, "name: expected 1 to 128 bytes of text, found nothing"},
		{`"bill"`, `"` + strings.Repeat("é", 65) + `"`, "name: expected at most 128 bytes, found 130"},
		{`"bill"`, `" bill"`, `name: expected no space at its start and its end, found " bill"`},
		{`*/10 * * * * *`, `61 * * * *`, "cron: "},
		{`*/10 * * * * *`, ``, "cron: "},
		{`*/10 * * * * *`, `0 0 30 2 *`, "cron: "},
		{`https://example.com/ring`, `ftp://example.com`, "notifyHTTPParam.url: "},
		{`https://example.com/ring`, ``, "notifyHTTPParam.url: expected a URL"},
		{`https://example.com/ring`, `https://example.com/` + strings.Repeat("a", 2048), "notifyHTTPParam.url: expected at most 2048 bytes, found 2068"},
		{`"POST"`, `"FETCH"`, "notifyHTTPParam.method: "},
		{`"X-A"`, `"X A"`, "notifyHTTPParam.header"},
		{`["1","2"]`, `"1"`, "notifyHTTPParam.header"},
		{`{\"a\": 1}`, strings.Repeat("b", timer.MaxBodyLen+1), "notifyHTTPParam.body: expected at most 262144 bytes, found 262145"},
		{apitest.V1Body, `[1]`, "body: expected a JSON object, found a list"},
		{apitest.V1Body, `{"app":`, "body: expected a JSON object, found other text from byte"},
	} {
		body := strings.Replace(apitest.V1Body, c.from, c.to, 1)
		require.Contains(t, f.V1(t, 400, http.MethodPost, "/api/timer/v1/def", body).Msg, c.want)
	}
	for _, ref := range []string{`{"app":"shop"}`, `{"id":"x","app":"shop"}`, `{"id":1.5,"app":"shop"}`, `{"id":-1,"app":"shop"}`, `{"id":9007199254740992,"app":"shop"}`} {
		require.Contains(
			t,
			f.V1(t, 400, http.MethodPost, "/api/timer/v1/enable", ref).Msg,
			"id: expected a whole number from 1 to 2^53-1",
			ref,
		)
	}
	require.Contains(
		t,
		f.V1(t, 400, http.MethodDelete, "/api/timer/v1/def", `{"id":1}`).Msg,
		"app: expected 1 to 64 bytes of text, found nothing",
	)
	require.Contains(
		t,
		f.V1(t, 400, http.MethodGet, "/api/timer/v1/def?app=a", "").Msg,
		"id: expected a whole number from 1 to 2^53-1",
	)
}

func TestV1LongBodyIsRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.V1(t, 413, http.MethodPost, "/api/timer/v1/def", `{"app":"`+strings.Repeat("a", 3<<20)+`"}`)
}

func TestV1ServerErrors(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Faults.Set(timer.Unavailable("creating timers", apitest.ErrSecret))
	a := f.Call(t, http.MethodPost, "/api/timer/v1/def", apitest.V1Body, nil)
	require.Equal(t, 503, a.Status)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.NotContains(t, a.Body, "hunter2")

	f.Faults.Set(apitest.ErrSecret)
	a = f.Call(t, http.MethodPost, "/api/timer/v1/def", apitest.V1Body, nil)
	require.Equal(t, 500, a.Status)
	require.JSONEq(t, `{"code":500,"msg":"internal error"}`, a.Body)

	require.Equal(t, 404, f.V1(t, 404, http.MethodGet, "/api/timer/v1/nothing", "").Code)
	f.V1(t, 405, http.MethodPut, "/api/timer/v1/def", "")
}

func TestZoneOfTheDeployment(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Zone = "Asia/Kolkata" })
	id := f.V1(
		t,
		200,
		http.MethodPost,
		"/api/timer/v1/def",
		strings.Replace(apitest.V1Body, "*/10 * * * * *", "0 12 * * *", 1),
	).ID
	f.V1(t, 200, http.MethodPost, "/api/timer/v1/enable", fmt.Sprintf(`{"id":%d,"app":"shop"}`, id))
	got, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	require.Equal(t, "06:30", time.UnixMilli(got.NextDueMS).UTC().Format("15:04"))
}
