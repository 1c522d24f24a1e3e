package scenario

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestJobPausesTimersByLabel checks that a job which pauses the timers of a label stops their calls
// and no others, and that the app's history and its events have every call.
func TestJobPausesTimersByLabel(t *testing.T) {
	t.Parallel()
	const most, few = 150, 10 // timers with the label, and without
	runOnAll(t, func(t *testing.T, env *environment) {
		asked := time.Now()
		items := make([]client.NewTimer, most+few)
		for i := range items {
			items[i] = client.NewTimer{
				App: env.app, Name: fmt.Sprintf("of a label %d", i), Status: "active",
				Schedule: client.Cron(everySecond),
				Target:   client.Post(env.rcv.URL("/jobs")),
				Labels:   client.Labels{"team": "pay"},
			}
			if i >= most {
				items[i].Labels["team"] = "ops"
			}
		}
		var created struct{ Items []struct{ ID, Result string } }
		_, err := env.api.Do(t.Context(), http.MethodPost, "/api/v2/timers:batch", nil,
			map[string]any{"items": items}, &created)
		require.NoError(t, err)
		ids := make([]timer.ID, len(items))
		for i, c := range created.Items {
			require.Equal(t, "created", c.Result)
			ids[i], err = timer.ParseID(c.ID)
			require.NoError(t, err)
		}
		pause(t, 3*time.Second)

		done := runJob(t, env, map[string]any{
			"action": "pause", "filter": map[string]any{"labels": "team=pay"}, "reason": "release",
		})
		require.EqualValues(t, most, done.Done)
		require.Zero(t, done.Failed)
		off := time.Now()
		pauseUntil(t, off.Add(reach+4*time.Second))
		end := time.Now()
		// Then all of them stop, so that what is listed below does not grow.
		require.EqualValues(
			t,
			few,
			runJob(t, env, map[string]any{"action": "pause", "all": true}).Done,
		)
		pause(t, 2*reach)
		for _, id := range ids[:most] {
			env.led.AddEvery(id, time.Second, asked, off.Add(reach), ledger.May)
			env.led.AddEvery(id, time.Second, off.Add(reach), end, ledger.Not)
		}
		for _, id := range ids[most:] {
			env.led.AddEvery(id, time.Second, asked, off, ledger.May)
			env.led.AddEvery(id, time.Second, off, end.Add(-2*time.Second), ledger.Must)
			env.led.AddEvery(
				id,
				time.Second,
				end.Add(-2*time.Second),
				end.Add(time.Minute),
				ledger.May,
			)
		}
		v := env.settle(t)
		require.NotZero(t, v.Due)
		checkAppHistory(t, env, ids, asked)
	})
}

type jobAnswer struct {
	ID, Status   string
	Done, Failed int64
}

// runJob starts a job and waits for its end.
func runJob(t *testing.T, env *environment, body map[string]any) (j jobAnswer) {
	t.Helper()
	path := "/api/v2/apps/" + url.PathEscape(env.app) + "/jobs"
	_, err := env.api.Do(t.Context(), http.MethodPost, path, nil, body, &j)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := env.api.Do(t.Context(), http.MethodGet, path+"/"+j.ID, nil, nil, &j)
		return err == nil && j.Status != "running"
	}, patience, 100*time.Millisecond)
	require.Equal(t, "done", j.Status)
	return j
}

// checkAppHistory compares the calls that came with the fires of the app and with its events.
func checkAppHistory(t *testing.T, env *environment, ids []timer.ID, from time.Time) {
	t.Helper()
	app := "/api/v2/apps/" + url.PathEscape(env.app)
	since := url.QueryEscape(from.UTC().Format(time.RFC3339))
	called := map[string]bool{}
	for _, a := range env.rcv.Of(ids...) {
		called[a.Fire.String()] = true
	}
	require.NotEmpty(t, called)

	listed := map[string]bool{}
	for cursor, more := "", true; more; {
		var page struct {
			Items      []struct{ ID string }
			NextCursor string `json:"next_cursor"`
		}
		_, err := env.api.Do(
			t.Context(),
			http.MethodGet,
			app+"/fires?state=delivered&limit=500&finished_from="+
				since+"&cursor="+url.QueryEscape(cursor),
			nil,
			nil,
			&page,
		)
		require.NoError(t, err)
		for _, f := range page.Items {
			listed[f.ID] = true
		}
		cursor, more = page.NextCursor, page.NextCursor != ""
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		env.API()+app+"/events?follow=false&state=delivered&from="+since, nil)
	require.NoError(t, err)
	q.Header.Set("Authorization", "Bearer "+client.AdminKey)
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	events := string(body)
	for id := range called {
		require.True(t, listed[id], "the history of the app lacks fire %s", id)
		require.Contains(t, events, `"id":"`+id+`"`)
	}
	require.Equal(t, len(called), strings.Count(events, "event: outcome"), "no event twice")
}
