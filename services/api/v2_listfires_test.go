package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

type listedFire struct {
	ID, Due, Cause, Status string
	WaitsFor               string `json:"waits_for"`
	NextRun                string `json:"next_run"`
}

// fires reads all pages of a timer's fires. limit is per page.
func (f *fixture) fires(t *testing.T, id, states string, limit int) (all []listedFire) {
	t.Helper()
	path := fmt.Sprintf("%s&limit=%d", timerPath(id, "/fires"), limit)
	if states != "" {
		path += "&state=" + states
	}
	for cursor := ""; ; {
		var page struct {
			Items []listedFire
			Next  string `json:"next_cursor"`
		}
		f.call(t, http.MethodGet, path+"&cursor="+cursor, "", nil).into(t, 200, &page)
		require.LessOrEqual(t, len(page.Items), limit)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func statuses(fires []listedFire) string {
	var all []string
	for _, one := range fires {
		all = append(all, one.Status)
	}
	return strings.Join(all, " ")
}

// finish records outcomes of fires that it claims.
func (f *fixture) finish(
	t *testing.T,
	session timer.ID,
	fires []timer.Fire,
	kinds ...timer.OutcomeKind,
) {
	t.Helper()
	won, err := f.store.Claim(t.Context(), session, fires)
	require.NoError(t, err)
	require.Len(t, won, len(fires))
	var outcomes []timer.Outcome
	for i := range won {
		outcomes = append(outcomes, timer.Outcome{
			Fire:       won[i],
			Kind:       kinds[i],
			FinishedMS: time.Now().UnixMilli(),
			UntilMS:    won[i].DueMS,
			Count:      1,
			Attempts:   1,
		})
	}
	_, _, err = f.store.Record(t.Context(), session, outcomes, nil)
	require.NoError(t, err)
}

// TestV2FiresByState checks that fires of each state are listed once, page by page.
func TestV2FiresByState(t *testing.T) {
	t.Parallel()
	f := setup(t)
	got, id := f.active(t, "states", `{"kind":"cron","specs":["@hourly"]}`)
	f.active(t, "neighbour", `{"kind":"cron","specs":["* * * * *"]}`)
	tm, err := f.store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	base := time.Now().Add(-time.Hour).UnixMilli()
	var made []timer.Fire
	for i := range int64(9) {
		made = append(made, timer.Fire{
			FireID: timer.FireID{
				Timer:  id,
				DueMS:  base + i,
				Series: 100 + i,
			},
			RunAtMS: base + i,
			AppID:   tm.AppID,
			Version: 1,
			Epoch:   1,
			Cause:   timer.CauseRunNow,
		})
	}
	_, err = f.store.AddFires(t.Context(), "shop", id, made)
	require.NoError(t, err)
	session := timer.ID(7)
	require.NoError(t, f.store.OpenSession(t.Context(), session, store.ExecutorSession, "test"))
	f.finish(
		t,
		session,
		made[:5],
		timer.Delivered,
		timer.Failed,
		timer.Skipped,
		timer.Delivered,
		timer.Failed,
	)
	won, err := f.store.Claim(t.Context(), session, made[5:6])
	require.NoError(t, err)
	won[0].State, won[0].Attempt = timer.FireRetrying, 1
	_, err = f.store.Release(t.Context(), session, won, nil)
	require.NoError(t, err)

	const finished, open = "failed delivered skipped failed delivered", "open" + " open" + " open" + " open"
	for _, limit := range []int{1, 2, 3, 5, 100} {
		require.Equal(
			t,
			finished,
			statuses(f.fires(t, got.ID, "", limit)),
			"who names no state has the finished ones, as ever",
		)
		require.Equal(t, finished, statuses(f.fires(t, got.ID, "skipped,failed,delivered", limit)))
		require.Equal(
			t,
			strings.Repeat(" failed", 2)[1:],
			statuses(f.fires(t, got.ID, "failed", limit)),
		)
		require.Equal(
			t,
			"delivered skipped delivered",
			statuses(f.fires(t, got.ID, "delivered,skipped", limit)),
		)
		require.Equal(t, open, statuses(f.fires(t, got.ID, "open", limit)))
		require.Equal(
			t,
			open+" "+finished,
			statuses(f.fires(t, got.ID, "delivered,failed,skipped,open", limit)),
		)
		all := f.fires(t, got.ID, "upcoming,open,failed", limit)
		require.True(
			t,
			strings.HasPrefix(statuses(all), open+" failed"+" failed upcoming"),
			"%d: %s",
			limit,
			statuses(all),
		)
		ids := make(map[string]bool)
		for _, one := range all {
			require.False(t, ids[one.ID], "%s is listed twice", one.ID)
			ids[one.ID] = true
		}
	}
	listed := f.fires(t, got.ID, "open", 10)
	require.Equal(t, "retry", listed[0].WaitsFor)
	require.Equal(t, "run", listed[1].WaitsFor)
	require.Equal(t, "run_now", listed[0].Cause)

	soon := f.fires(t, got.ID, "upcoming", 30)
	require.Len(t, soon, 30, "beyond the hour that is expanded, too")
	next, err := time.Parse(time.RFC3339, soon[0].Due)
	require.NoError(t, err)
	for i, one := range soon {
		require.Equal(t, rfc(next.Add(time.Duration(i)*time.Hour)), one.Due)
		require.Equal(t, "upcoming", one.Status)
	}
	var detail struct{ ID, Status string }
	f.call(t, http.MethodGet, "/api/v2/fires/"+soon[0].ID+"?app=shop", "", nil).
		into(t, 200, &detail)
	require.Equal(t, "open", detail.Status, "it is made already")

	f.problem(t, 422, http.MethodGet, timerPath(got.ID, "/fires")+"&state=finished", "")
	var page struct {
		Next string `json:"next_cursor"`
	}
	f.call(t, http.MethodGet, timerPath(got.ID, "/fires")+"&state=open,failed&limit=1", "", nil).
		into(t, 200, &page)
	f.problem(
		t,
		422,
		http.MethodGet,
		timerPath(got.ID, "/fires")+"&state=failed&cursor="+page.Next,
		"",
	)
	for _, bad := range []string{"x", "f1.2.3", "f9.1.1.1", "f1.x.1.1", "t1", "f1.2.3.4.5"} {
		f.problem(
			t,
			422,
			http.MethodGet,
			timerPath(
				got.ID,
				"/fires",
			)+"&cursor="+base64.RawURLEncoding.EncodeToString(
				[]byte(bad),
			),
			"",
		)
	}
	require.Equal(t, 204, f.call(t, http.MethodDelete, timerPath(got.ID, ""), "", nil).status)
	require.Equal(
		t,
		open+" "+finished,
		statuses(f.fires(t, got.ID, "upcoming,open,delivered,failed,skipped", 3)),
		"deleted: nothing more is due",
	)
	f.problem(t, 404, http.MethodGet, "/api/v2/timers/1/fires?app=shop&state=open", "")
}

// TestV2UpcomingFires checks that upcoming fires are those that will be created, for each kind of
// schedule, also with max_fires, paused or inactive.
func TestV2UpcomingFires(t *testing.T) {
	t.Parallel()
	f := setup(t)
	at := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	for schedule, want := range map[string]int{
		`{"kind":"interval","every":"1m"}`:                            50,
		`{"kind":"interval","every":"1m","max_fires":7}`:              7,
		`{"kind":"interval","every":"30m","max_fires":3}`:             3,
		`{"kind":"interval","every":"1s","max_fires":40}`:             40,
		`{"kind":"at","at":"` + rfc(at) + `"}`:                        1,
		`{"kind":"at","at":"2020-01-01T00:00:00Z"}`:                   0,
		`{"kind":"delay","delay":"3h"}`:                               1,
		`{"kind":"fixed_delay","every":"10m"}`:                        1,
		`{"kind":"cron","specs":["0 0 0 1 1 * 2020"]}`:                0,
		`{"kind":"cron","specs":["0 0 0 1 1 * 2098,2099"]}`:           2,
		`{"kind":"interval","every":"1m","jitter":"1h"}`:              50,
		`{"kind":"interval","every":"1m","end_at":"` + rfc(at) + `"}`: 19,
	} {
		got, _ := f.active(t, "of "+fmt.Sprint(len(schedule), want), schedule)
		fires := f.fires(t, got.ID, "upcoming", 50)
		require.Len(t, fires, want, schedule)
		if want > 0 {
			require.Equal(t, got.NextDue, fires[0].Due, schedule)
		}
		f.do(t, 200, http.MethodPatch, timerPath(got.ID, ""), `{"status":"inactive"}`)
		require.Empty(t, f.fires(t, got.ID, "upcoming", 50), schedule)
	}
	got, _ := f.active(t, "paused", `{"kind":"interval","every":"1m"}`)
	f.do(t, 200, http.MethodPost, timerPath(got.ID, "/pause"), `{"until":"`+rfc(at)+`"}`)
	fires := f.fires(t, got.ID, "upcoming", 50)
	require.GreaterOrEqual(t, fires[0].Due, rfc(at), "from the end of the pause on")
	f.do(t, 200, http.MethodPost, timerPath(got.ID, "/pause"), "")
	require.Empty(t, f.fires(t, got.ID, "upcoming", 50))
}
