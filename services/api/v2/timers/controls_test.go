package timers_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2PauseAndResume(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "paused", `{"kind":"cron","specs":["@hourly"]}`)
	pause, resume := apitest.TimerPath(got.ID, "/pause"), apitest.TimerPath(got.ID, "/resume")
	until := apitest.RFC(time.Now().Add(time.Hour).Truncate(time.Second))
	p := f.Do(t, 200, http.MethodPost, pause, `{"reason":"stock-taking","until":"`+until+`"}`)
	require.Equal(t, "paused", p.Status)
	require.Equal(t, map[string]any{"reason": "stock-taking", "until": until}, p.Paused)
	require.Empty(t, p.NextDue)
	p = f.Do(t, 200, http.MethodPost, pause, `{"reason":"longer"}`)
	require.Equal(t, map[string]any{"reason": "longer"}, p.Paused, "a pause can be changed")
	require.Equal(
		t,
		p.Paused,
		f.Do(t, 200, http.MethodGet, apitest.TimerPath(got.ID, ""), "").Paused,
	)
	var list struct{ Items []apitest.V2Timer }
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&status=paused", "", nil).Into(t, 200, &list)
	require.Len(t, list.Items, 1)
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil).Into(t, 200, &list)
	require.Len(t, list.Items, 1)

	p = f.Do(t, 200, http.MethodPost, resume, "")
	require.Equal(t, "active", p.Status)
	require.Nil(t, p.Paused)
	require.NotEmpty(t, p.NextDue)
	require.Equal(
		t,
		"active",
		f.Do(t, 200, http.MethodPost, resume, "").Status,
		"a caller may repeat it",
	)
	require.Equal(t, "paused", f.Do(t, 200, http.MethodPost, pause, "").Status, "without reason")
	require.Equal(
		t,
		"active",
		f.Do(t, 200, http.MethodPatch, apitest.TimerPath(got.ID, ""), `{"status":"active"}`).Status,
	)

	f.Do(t, 200, http.MethodPatch, apitest.TimerPath(got.ID, ""), `{"status":"inactive"}`)
	f.Problem(t, 409, http.MethodPost, pause, `{}`)
	f.Problem(t, 409, http.MethodPost, resume, "")
	for body, want := range map[string]string{
		`{"until":"2020-01-01T00:00:00Z"}`:              "body.until",
		`{"until":"9999-01-01T00:00:00Z"}`:              "body.until",
		`{"until":"noon"}`:                              "body.until",
		`{"reason":"` + strings.Repeat("x", 257) + `"}`: "body.reason",
		`{"reason":"a\u0000"}`:                          "body.reason",
		`{"because":"x"}`:                               "body.because",
	} {
		require.Equal(
			t,
			want,
			f.Problem(t, 422, http.MethodPost, pause, body).Errors[0].Location,
			body,
		)
	}
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/1/pause?app=shop", "")
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/1/resume?app=shop", "")
}

func TestV2RunNow(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(t, 201, apitest.V2Body) // the timer is not even active
	run := apitest.TimerPath(got.ID, "/run")
	type fire struct{ ID, Due, Cause, Status string }
	call := func(key string) (one fire) {
		header := map[string]string{}
		if key != "" {
			header["Idempotency-Key"] = key
		}
		a := f.Call(t, http.MethodPost, run, "", header)
		a.Into(t, 202, &one)
		require.Equal(t, "/api/v2/fires/"+one.ID+"?app=shop", a.Header.Get("Location"))
		return one
	}
	first, second := call(""), call("")
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, "run_now", first.Cause)
	id, err := timer.ParseFireID(first.ID)
	require.NoError(t, err)
	require.NotZero(t, id.Series)
	require.WithinDuration(t, time.Now(), time.UnixMilli(id.DueMS), 5*time.Second)
	require.Len(t, f.Dispatched.All(), 2)

	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() { ids[i] = call("k").ID })
	}
	wg.Wait()
	for _, one := range ids {
		require.Equal(t, ids[0], one, "one key, one fire")
	}
	require.Len(t, f.Dispatched.All(), 3)
	require.NotEqual(t, ids[0], call("other").ID)

	// The key is still known after its fire has finished.
	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	won, err := f.Store.Claim(t.Context(), session, f.Dispatched.All()[2:3])
	require.NoError(t, err)
	require.Len(t, won, 1)
	_, _, err = f.Store.Record(t.Context(), session, []timer.Outcome{
		{
			Fire:       won[0],
			Kind:       timer.Delivered,
			FinishedMS: time.Now().UnixMilli(),
			UntilMS:    won[0].DueMS,
			Count:      1,
			Attempts:   1,
		},
	}, nil)
	require.NoError(t, err)
	again := call("k")
	require.Equal(t, ids[0], again.ID)
	require.Equal(t, "delivered", again.Status)
	var page struct{ Items []fire }
	f.Call(t, http.MethodGet, apitest.TimerPath(got.ID, "/fires"), "", nil).Into(t, 200, &page)
	require.Equal(t, "run_now", page.Items[0].Cause)

	// A create may use the same key, because creates have keys of their own.
	var other apitest.V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", strings.Replace(apitest.V2Body, "bill", "other", 1), map[string]string{"Idempotency-Key": "k"}).
		Into(t, 201, &other)
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/1/run?app=shop", "")
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/"+got.ID+"/run?app=desk", "")
}

func TestV2Reschedule(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	first := time.Now().Add(10 * time.Minute).Truncate(time.Second)
	got, id := f.Active(t, "once", `{"kind":"at","at":"`+apitest.RFC(first)+`"}`)
	path := apitest.TimerPath(got.ID, "/reschedule")
	later := first.Add(5 * time.Minute)
	moved := f.Do(t, 200, http.MethodPost, path, `{"at":"`+apitest.RFC(later)+`"}`)
	require.Equal(t, apitest.RFC(later), moved.NextDue)
	require.Equal(t, 2, moved.Version)
	fires := f.Dispatched.All()
	require.Equal(t, later.UnixMilli(), fires[len(fires)-1].DueMS)
	require.EqualValues(t, 2, fires[len(fires)-1].Version)

	moved = f.Do(t, 200, http.MethodPost, path, `{"delay":"30m","if_version":2}`)
	due, err := time.Parse(time.RFC3339, moved.NextDue)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(30*time.Minute), due, 10*time.Second)
	require.Equal(t, "at", moved.Schedule["kind"])
	require.Equal(
		t,
		"body.if_version",
		f.Problem(t, 409, http.MethodPost, path, `{"delay":"30m","if_version":2}`).Errors[0].Location,
	)
	for body, want := range map[string]string{
		`{}`: "body.at",
		`{"at":"` + apitest.RFC(later) + `","delay":"1m"}`: "body.at",
		`{"at":"2020-01-01T00:00:00Z"}`:                    "body.at",
		`{"delay":"0s"}`:                                   "body.delay",
		`{"delay":"soon"}`:                                 "body.delay",
	} {
		require.Equal(
			t,
			want,
			f.Problem(t, 422, http.MethodPost, path, body).Errors[0].Location,
			body,
		)
	}
	_, err = f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)

	delayed := f.Create(
		t,
		201,
		strings.Replace(apitest.With(`{"kind":"delay","delay":"2h"}`, ""), "bill", "inactive", 1),
	)
	moved = f.Do(
		t,
		200,
		http.MethodPost,
		apitest.TimerPath(delayed.ID, "/reschedule"),
		`{"at":"`+apitest.RFC(later)+`"}`,
	)
	require.Empty(t, moved.NextDue, "not active yet")
	require.Equal(
		t,
		apitest.RFC(later),
		f.Do(
			t,
			200,
			http.MethodPatch,
			apitest.TimerPath(delayed.ID, ""),
			`{"status":"active"}`,
		).NextDue,
	)

	over, _ := f.Active(t, "over", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
	require.Contains(
		t,
		f.Problem(
			t,
			409,
			http.MethodPost,
			apitest.TimerPath(over.ID, "/reschedule"),
			`{"delay":"1h"}`,
		).Detail,
		"to be called at once",
	)
	cron, _ := f.Active(t, "cron", `{"kind":"cron","specs":["@daily"]}`)
	require.Contains(
		t,
		f.Problem(
			t,
			409,
			http.MethodPost,
			apitest.TimerPath(cron.ID, "/reschedule"),
			`{"delay":"1h"}`,
		).Detail,
		"recurs",
	)
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/1/reschedule?app=shop", `{"delay":"1h"}`)
}

// slowEdits is a store in which edits take effect only at an instant.
type slowEdits struct {
	api.Store

	at time.Time
}

func (s *slowEdits) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	wait := time.NewTimer(time.Until(s.at))
	defer wait.Stop()
	<-wait.C
	return s.Store.Edit(ctx, items, plan)
}

// TestV2RescheduleComesTooLate checks that a one-shot that comes due while it is moved is called
// once, at the old instant.
func TestV2RescheduleComesTooLate(t *testing.T) {
	t.Parallel()
	slow := &slowEdits{}
	f := apitest.Setup(t, func(o *api.Options) { slow.Store, o.Store = o.Store, slow })
	due := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	slow.at = due.Add(100 * time.Millisecond)
	got, id := f.Active(t, "late", `{"kind":"at","at":"`+apitest.RFC(due)+`"}`)
	require.Contains(
		t,
		f.Problem(
			t,
			409,
			http.MethodPost,
			apitest.TimerPath(got.ID, "/reschedule"),
			`{"delay":"10m"}`,
		).Detail,
		"meanwhile",
	)
	for _, fire := range f.Dispatched.All() {
		require.Equal(t, due.UnixMilli(), fire.DueMS)
	}
	after := f.Do(t, 200, http.MethodGet, apitest.TimerPath(got.ID, ""), "")
	require.Equal(t, got.Schedule, after.Schedule)
	require.Equal(t, got.Version, after.Version, "nothing was written")
	require.Empty(t, after.NextDue)
	tm, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	require.Equal(t, timer.NeverMS, tm.NextDueMS)
}
