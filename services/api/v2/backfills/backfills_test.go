package backfills_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2Backfill(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "past", `{"kind":"cron","specs":["0 * * * *"]}`)
	seldom, _ := f.Active(t, "seldom", `{"kind":"cron","specs":["0 0 1 1 *"]}`)
	path := apitest.TimerPath(got.ID, "/backfills")
	type backfill struct {
		ID, From, To, Status string
		TimerID              string `json:"timer_id"`
		Fires                int
		FiresCreated         int `json:"fires_created"`
	}
	body := `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`
	var b backfill
	f.Call(t, http.MethodPost, path+"&dry_run=true", body, nil).Into(t, 202, &b)
	require.Equal(t, 24, b.Fires)
	none := f.Call(t, http.MethodPost, apitest.TimerPath(seldom.ID, "/backfills")+"&dry_run=true",
		`{"from":"2026-02-01T00:00:00Z","to":"2026-03-01T00:00:00Z"}`, nil)
	require.Contains(t, none.Body, `"fires":0,`)
	a := f.Call(t, http.MethodPost, path, body, nil)
	a.Into(t, 202, &b)
	require.Equal(t, 24, b.Fires)
	require.Equal(t, "/api/v2/backfills/"+b.ID+"?app=shop", a.Header.Get("Location"))
	require.Equal(t, "running", b.Status)
	require.Equal(t, got.ID, b.TimerID)
	require.Equal(t, "2026-01-01T00:00:00.000Z", b.From)
	b.Fires = 0 // only the start has counted
	var same backfill
	f.Call(t, http.MethodGet, a.Header.Get("Location"), "", nil).Into(t, 200, &same)
	require.Equal(t, b, same)
	f.Call(t, http.MethodDelete, a.Header.Get("Location"), "", nil).Into(t, 200, &same)
	require.Equal(t, "cancelled", same.Status)
	f.Call(t, http.MethodDelete, a.Header.Get("Location"), "", nil).Into(t, 200, &same)
	require.Equal(t, "cancelled", same.Status, "a caller may repeat it")

	key := map[string]string{"Idempotency-Key": "k"}
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &b)
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &same)
	require.Equal(t, b.ID, same.ID)
	require.Equal(
		t,
		409,
		f.Call(
			t,
			http.MethodPost,
			path,
			`{"from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z"}`,
			key,
		).Status,
	)

	tomorrow := apitest.RFC(time.Now().Add(24 * time.Hour))
	for body, want := range map[string]string{
		`{"to":"2026-01-01T00:00:00Z"}`:                               "body.from",
		`{"from":"` + tomorrow + `"}`:                                 "body.from",
		`{"from":"x","to":"2026-01-01T00:00:00Z"}`:                    "body.from",
		`{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: "body.to",
		`{"from":"2026-01-01T00:00:00Z","to":"` + tomorrow + `"}`:     "body.to",
		`{"from":"2020-01-01T00:00:00Z","to":"2021-06-01T00:00:00Z"}`: "body.to",
		`{"from":"1960-01-01T00:00:00Z","to":"1960-01-02T00:00:00Z"}`: "body.from",
	} {
		require.Equal(
			t,
			want,
			f.Problem(t, 422, http.MethodPost, path, body).Errors[0].Location,
			body,
		)
	}
	often, _ := f.Active(t, "often", `{"kind":"cron","specs":["* * * * * *"]}`)
	p := f.Problem(
		t,
		422,
		http.MethodPost,
		apitest.TimerPath(often.ID, "/backfills"),
		`{"from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z"}`,
	)
	require.Contains(t, p.Detail, "100000 fires")
	chain, _ := f.Active(t, "chain", `{"kind":"fixed_delay","every":"1h"}`)
	f.Problem(t, 409, http.MethodPost, apitest.TimerPath(chain.ID, "/backfills"), body)
	draft := f.Create(t, 201, apitest.With(`{"kind":"interval","every":"1h"}`, ""))
	p = f.Problem(t, 409, http.MethodPost, apitest.TimerPath(draft.ID, "/backfills"), body)
	require.Contains(t, p.Detail, "give an interval an anchor")
	f.Problem(t, 404, http.MethodPost, "/api/v2/timers/1/backfills?app=shop", body)
	f.Problem(t, 404, http.MethodGet, "/api/v2/backfills/1?app=shop", "")
	f.Problem(t, 404, http.MethodDelete, "/api/v2/backfills/"+b.ID+"?app=desk", "")
}

// TestV2BackfillUntilNow checks that a backfill without an end ends now, also when it is repeated by
// its key later.
func TestV2BackfillUntilNow(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "past", `{"kind":"cron","specs":["0 * * * *"]}`)
	path := apitest.TimerPath(got.ID, "/backfills")
	type backfill struct {
		ID    string
		To    time.Time
		Fires int
	}
	before := time.Now().Truncate(time.Hour)
	body := `{"from":"` + apitest.RFC(before.Add(-24*time.Hour)) + `"}`
	key := map[string]string{"Idempotency-Key": "k"}
	var first, again backfill
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &first)
	require.GreaterOrEqual(t, first.Fires, 25)
	require.True(t, first.To.After(before))
	require.False(t, first.To.After(time.Now()))
	f.Call(t, http.MethodPost, path, body, key).Into(t, 202, &again)
	require.Equal(t, first, again)
}

// TestV2BackfillThatAFreezeRefuses checks that it leaves nothing under its key: repeated after the
// freeze, its fires are planned from then on.
func TestV2BackfillThatAFreezeRefuses(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "past", `{"kind":"cron","specs":["0 * * * *"]}`)
	start := func(status int, key string) timer.ID {
		t.Helper()
		var header map[string]string
		if key != "" {
			header = map[string]string{"Idempotency-Key": key}
		}
		var b struct{ ID string }
		f.Call(
			t,
			http.MethodPost,
			apitest.TimerPath(got.ID, "/backfills"),
			`{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`,
			header,
		).Into(t, status, &b)
		if status != 202 {
			return 0
		}
		id, err := timer.ParseID(b.ID)
		require.NoError(t, err)
		return id
	}
	first := start(202, "first")
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", "", nil).Into(t, 200, &struct{}{})
	start(409, "second")
	require.Equal(t, first, start(202, "first"), "a repetition creates nothing")
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil).Into(t, 200, &struct{}{})
	without := start(202, "")
	second := start(202, "second")
	require.Greater(t, second, without, "ids ascend")
	require.Equal(t, second, start(202, "second"))
}
