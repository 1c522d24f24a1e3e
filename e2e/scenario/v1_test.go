package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// v1 sends a literal body, as an existing caller does, and returns the status and the answer.
func v1(t *testing.T, env *environment, method, path, body string) (int, map[string]any) {
	t.Helper()
	q, err := http.NewRequestWithContext(
		t.Context(),
		method,
		env.API()+"/api/timer/v1"+path,
		strings.NewReader(body),
	)
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+client.AdminKey)
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var a map[string]any
	require.NoError(t, json.Unmarshal(b, &a), "%s", b)
	code, ok := a["code"].(float64)
	require.True(t, ok, "no code in %s", b)
	require.Contains(t, a, "msg")
	require.Equal(
		t,
		resp.StatusCode/100 == 2,
		code == 0,
		"status %d and code differ: %s",
		resp.StatusCode,
		b,
	)
	return resp.StatusCode, a
}

// TestV1AsExistingCallersUseIt makes every call of v1.
func TestV1AsExistingCallersUseIt(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		const payload = "{\"order\": 7,\n \"ß\":\"☂\"}  "
		url := env.rcv.Script("/v1/ring?x=1", receiver.Script{})
		env.rcv.Script("/v1/ring", receiver.Script{Keep: true})
		at := soon(20 * time.Second).UTC() // after the calls below: it must be enabled before
		cron := fmt.Sprintf(
			"%d %d %d %d %d ? %d",
			at.Second(),
			at.Minute(),
			at.Hour(),
			at.Day(),
			at.Month(),
			at.Year(),
		)
		quoted, err := json.Marshal(payload)
		require.NoError(t, err)
		def := fmt.Sprintf(
			`{"app":%q,"name":"ring","cron":%q,"somethingNew":true,"notifyHTTPParam":{"url":%q,"method":"PUT",`+
				`"header":{"X-Two":["a","b"],"Content-Type":["text/x-order"]},"body":%s}}`,
			env.app,
			cron,
			url,
			quoted,
		)

		status, a := v1(t, env, "POST", "/def", def)
		require.Equal(t, 200, status, "%v", a)
		id := timer.ID(a["id"].(float64))
		require.Less(t, int64(id), int64(1)<<53)
		status, a = v1(t, env, "POST", "/def", def)
		require.Equal(t, 200, status, "a repeated request: %v", a)
		require.InDelta(t, float64(id), a["id"], 0)
		status, _ = v1(t, env, "POST", "/def", strings.Replace(def, "PUT", "POST", 1))
		require.Equal(t, 409, status, "the name with another definition")

		get := fmt.Sprintf("/def?id=%d&app=%s", id, env.app)
		_, a = v1(t, env, "GET", get, "")
		data := a["data"].(map[string]any)
		require.Equal(t, "inactive", fmt.Sprint(data["status"]))
		require.Equal(t, cron, data["cron"])
		notify := data["notifyHTTPParam"].(map[string]any)
		require.Equal(t, url, notify["url"])
		//nolint:testifylint // byte for byte is the promise
		require.Equal(t, payload, notify["body"])

		status, _ = v1(
			t,
			env,
			"POST",
			"/enable",
			fmt.Sprintf(`{"id":%d,"app":"somebody-else"}`, id),
		)
		require.Equal(t, 404, status)
		status, _ = v1(t, env, "POST", "/enable", fmt.Sprintf(`{"id":%d,"app":%q}`, id, env.app))
		require.Equal(t, 200, status)
		status, _ = v1(t, env, "POST", "/enable", fmt.Sprintf(`{"id":"%d","app":%q}`, id, env.app))
		require.Equal(t, 200, status, "an id as text, and enabled already")
		_, a = v1(t, env, "GET", get, "")
		require.Equal(t, "active", fmt.Sprint(a["data"].(map[string]any)["status"]))

		fire := timer.FireID{Timer: id, DueMS: at.UnixMilli()}
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Requests("/v1/ring")) == 1 },
			patience,
			20*time.Millisecond,
		)
		r := env.rcv.Requests("/v1/ring")[0]
		require.Equal(t, "PUT", r.Method)
		require.Equal(t, "/v1/ring?x=1", r.URI)
		//nolint:testifylint // byte for byte is the promise
		require.Equal(t, payload, string(r.Body))
		require.Equal(t, []string{"a", "b"}, r.Header.Values("X-Two"))
		require.Equal(t, []string{"text/x-order"}, r.Header.Values("Content-Type"))
		require.Equal(t, id.String(), r.Header.Get("Carillon-Timer-Id"))
		require.Equal(t, fire.String(), r.Header.Get("Carillon-Fire-Id"))
		require.Equal(t, fire.String(), r.Header.Get("Idempotency-Key"))
		require.Equal(t, at.Format("2006-01-02T15:04:05.000Z"), r.Header.Get("Carillon-Due"))
		require.Equal(t, "1", r.Header.Get("Carillon-Attempt"))

		status, _ = v1(t, env, "POST", "/unable", fmt.Sprintf(`{"id":%d,"app":%q}`, id, env.app))
		require.Equal(t, 200, status)
		status, _ = v1(t, env, "DELETE", "/def", fmt.Sprintf(`{"id":%d,"app":%q}`, id, env.app))
		require.Equal(t, 200, status)
		status, _ = v1(t, env, "GET", get, "")
		require.Equal(t, 404, status)
		status, _ = v1(t, env, "POST", "/enable", fmt.Sprintf(`{"id":%d,"app":%q}`, id, env.app))
		require.Equal(t, 404, status)
	})
}

// TestV1RefusesBadInput checks that each message names the error.
func TestV1RefusesBadInput(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		good := fmt.Sprintf(
			`{"app":%q,"name":"n","cron":"@hourly","notifyHTTPParam":{"url":"http://127.0.0.1:1/","method":"GET"}}`,
			env.app,
		)
		for change, field := range map[string]string{
			`"@hourly"→"61 * * * * *"`:     "cron",
			`"http://127.0.0.1:1/"→"nope"`: "url",
			`"GET"→"BREW"`:                 "method",
			`"n"→""`:                       "name",
			`"n"→7`:                        "name",
		} {
			from, to, _ := strings.Cut(change, "→")
			require.Contains(t, good, from)
			status, a := v1(t, env, "POST", "/def", strings.Replace(good, from, to, 1))
			require.Equal(t, 400, status, "%s: %v", change, a)
			require.Contains(t, a["msg"], field, change)
		}
		status, _ := v1(t, env, "POST", "/def", "{")
		require.Equal(t, 400, status)
	})
}
