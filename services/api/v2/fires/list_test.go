package fires_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func statuses(fires []apitest.ListedFire) string {
	var all []string
	for _, one := range fires {
		all = append(all, one.Status)
	}
	return strings.Join(all, " ")
}

// TestV2FiresByState checks that fires of each state are listed once, page by page.
func TestV2FiresByState(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, id := f.Active(t, "states", `{"kind":"cron","specs":["@hourly"]}`)
	f.Active(t, "neighbour", `{"kind":"cron","specs":["* * * * *"]}`)
	tm, err := f.Store.Timer(t.Context(), "shop", id)
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
	_, err = f.Store.AddFires(t.Context(), "shop", id, made)
	require.NoError(t, err)
	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	f.Finish(
		t,
		session,
		made[:5],
		timer.Delivered,
		timer.Failed,
		timer.Skipped,
		timer.Delivered,
		timer.Failed,
	)
	won, err := f.Store.Claim(t.Context(), session, made[5:6])
	require.NoError(t, err)
	won[0].State, won[0].Attempt = timer.FireRetrying, 1
	_, err = f.Store.Release(t.Context(), session, won, nil)
	require.NoError(t, err)

	const finished, open = "failed delivered skipped failed delivered", "open" + " open" + " open" + " open"
	for _, limit := range []int{1, 2, 3, 5, 100} {
		require.Equal(
			t,
			finished,
			statuses(f.Fires(t, got.ID, "", limit)),
			"who names no state has the finished ones, as ever",
		)
		require.Equal(t, finished, statuses(f.Fires(t, got.ID, "skipped,failed,delivered", limit)))
		require.Equal(
			t,
			strings.Repeat(" failed", 2)[1:],
			statuses(f.Fires(t, got.ID, "failed", limit)),
		)
		require.Equal(
			t,
			"delivered skipped delivered",
			statuses(f.Fires(t, got.ID, "delivered,skipped", limit)),
		)
		require.Equal(t, open, statuses(f.Fires(t, got.ID, "open", limit)))
		require.Equal(
			t,
			open+" "+finished,
			statuses(f.Fires(t, got.ID, "delivered,failed,skipped,open", limit)),
		)
		all := f.Fires(t, got.ID, "upcoming,open,failed", limit)
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
	listed := f.Fires(t, got.ID, "open", 10)
	require.Equal(t, "retry", listed[0].WaitsFor)
	require.Equal(t, "run", listed[1].WaitsFor)
	require.Equal(t, "run_now", listed[0].Cause)

	soon := f.Fires(t, got.ID, "upcoming", 30)
	require.Len(t, soon, 30, "beyond the hour that is expanded, too")
	next, err := time.Parse(time.RFC3339, soon[0].Due)
	require.NoError(t, err)
	for i, one := range soon {
		require.Equal(t, apitest.RFC(next.Add(time.Duration(i)*time.Hour)), one.Due)
		require.Equal(t, "upcoming", one.Status)
	}
	var detail struct{ ID, Status string }
	f.Call(t, http.MethodGet, "/api/v2/fires/"+soon[0].ID+"?app=shop", "", nil).
		Into(t, 200, &detail)
	require.Equal(t, "open", detail.Status, "it is made already")

	f.Problem(t, 422, http.MethodGet, apitest.TimerPath(got.ID, "/fires")+"&state=finished", "")
	var page struct {
		Next string `json:"next_cursor"`
	}
	f.Call(t, http.MethodGet, apitest.TimerPath(got.ID, "/fires")+"&state=open,failed&limit=1", "", nil).
		Into(t, 200, &page)
	f.Problem(
		t,
		422,
		http.MethodGet,
		apitest.TimerPath(got.ID, "/fires")+"&state=failed&cursor="+page.Next,
		"",
	)
	for _, bad := range []string{"x", "f1.2.3", "f9.1.1.1", "f1.x.1.1", "t1", "f1.2.3.4.5"} {
		f.Problem(
			t,
			422,
			http.MethodGet,
			apitest.TimerPath(
				got.ID,
				"/fires",
			)+"&cursor="+base64.RawURLEncoding.EncodeToString(
				[]byte(bad),
			),
			"",
		)
	}
	require.Equal(
		t,
		204,
		f.Call(t, http.MethodDelete, apitest.TimerPath(got.ID, ""), "", nil).Status,
	)
	require.Equal(
		t,
		open+" "+finished,
		statuses(f.Fires(t, got.ID, "upcoming,open,delivered,failed,skipped", 3)),
		"deleted: nothing more is due",
	)
	f.Problem(t, 404, http.MethodGet, "/api/v2/timers/1/fires?app=shop&state=open", "")
}

// TestV2UpcomingFires checks that upcoming fires are those that will be created, for each kind of
// schedule, also with max_fires, paused or inactive.
func TestV2UpcomingFires(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	at := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	for schedule, want := range map[string]int{
		`{"kind":"interval","every":"1m"}`:                                    50,
		`{"kind":"interval","every":"1m","max_fires":7}`:                      7,
		`{"kind":"interval","every":"30m","max_fires":3}`:                     3,
		`{"kind":"interval","every":"1s","max_fires":40}`:                     40,
		`{"kind":"at","at":"` + apitest.RFC(at) + `"}`:                        1,
		`{"kind":"at","at":"2020-01-01T00:00:00Z"}`:                           0,
		`{"kind":"delay","delay":"3h"}`:                                       1,
		`{"kind":"fixed_delay","every":"10m"}`:                                1,
		`{"kind":"cron","specs":["0 0 0 1 1 * 2020"]}`:                        0,
		`{"kind":"cron","specs":["0 0 0 1 1 * 2098,2099"]}`:                   2,
		`{"kind":"interval","every":"1m","jitter":"1h"}`:                      50,
		`{"kind":"interval","every":"1m","end_at":"` + apitest.RFC(at) + `"}`: 19,
	} {
		got, _ := f.Active(t, "of "+fmt.Sprint(len(schedule), want), schedule)
		fires := f.Fires(t, got.ID, "upcoming", 50)
		require.Len(t, fires, want, schedule)
		if want > 0 {
			require.Equal(t, got.NextDue, fires[0].Due, schedule)
		}
		f.Do(t, 200, http.MethodPatch, apitest.TimerPath(got.ID, ""), `{"status":"inactive"}`)
		require.Empty(t, f.Fires(t, got.ID, "upcoming", 50), schedule)
	}
	got, _ := f.Active(t, "paused", `{"kind":"interval","every":"1m"}`)
	f.Do(
		t,
		200,
		http.MethodPost,
		apitest.TimerPath(got.ID, "/pause"),
		`{"until":"`+apitest.RFC(at)+`"}`,
	)
	fires := f.Fires(t, got.ID, "upcoming", 50)
	require.GreaterOrEqual(t, fires[0].Due, apitest.RFC(at), "from the end of the pause on")
	f.Do(t, 200, http.MethodPost, apitest.TimerPath(got.ID, "/pause"), "")
	require.Empty(t, f.Fires(t, got.ID, "upcoming", 50))
}

// TestV2ListTellsWhichFiresAnExecutorHas checks that the list, the fire and its explanation agree on
// a fire whose run time has come, with a live and with a dead owner.
func TestV2ListTellsWhichFiresAnExecutorHas(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // of the clock
	e := apitest.NewExecutor(t, func(o *api.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	held := e.Held(t, "shop", "bill", 1)[0]
	check := func(waits, code, text string) {
		t.Helper()
		listed := e.Fires(t, held.Timer.String(), "open", 10)
		if waits != "" {
			require.NotEmpty(t, listed)
			require.Equal(t, held.FireID.String(), listed[0].ID)
			require.Equal(t, waits, listed[0].WaitsFor)
		} else {
			require.Empty(t, listed)
		}
		var explained struct {
			Items []struct {
				Code, Text string
				Fire       struct {
					WaitsFor string `json:"waits_for"`
				}
				Timeline []struct{ Text string }
			}
			Holds []struct{ Code string }
		}
		e.Call(t, http.MethodGet, apitest.TimerPath(held.Timer.String(), "/explain")+"&at="+
			apitest.RFC(time.UnixMilli(held.DueMS)), "", nil).Into(t, 200, &explained)
		require.Equal(t, code, explained.Items[0].Code)
		require.Contains(t, explained.Items[0].Text, text)
		last := explained.Items[0].Timeline[len(explained.Items[0].Timeline)-1]
		require.Equal(t, explained.Items[0].Text, last.Text)
		if waits != "" {
			require.Equal(t, waits, explained.Items[0].Fire.WaitsFor)
		}
		if code == "overdue" { // its instant has passed, and the fire is open
			require.Contains(t, explained.Holds, struct{ Code string }{"no_executor"})
		}
	}
	ahead.Store(int64(time.Until(time.UnixMilli(held.DueMS)) - time.Minute))
	check("", "planned", "is to be called at")
	ahead.Store(int64(time.Until(time.UnixMilli(held.DueMS)) + time.Second))
	check("executor", "in_progress", "or its result is not recorded yet")
	require.NoError(t, e.Store.CloseSession(t.Context(), e.Session))
	check("run", "overdue", "no other one has claimed it yet")
}

// TestFiresDueAtZeroAreOnOnePage lists fires of backfills that are due at the first instant of 1970,
// which is 0.
func TestFiresDueAtZeroAreOnOnePage(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Create(t, 201, apitest.V2Body)
	id, err := timer.ParseID(got.ID)
	require.NoError(t, err)
	var added []timer.Fire
	for series := range int64(3) {
		added = append(added, timer.Fire{FireID: timer.FireID{Timer: id, Series: series + 7}})
	}
	_, err = f.Store.AddFires(t.Context(), "shop", id, added)
	require.NoError(t, err)
	var ids []string
	for cursor := ""; len(ids) < 5; {
		var page struct {
			Items []struct{ ID string }
			Next  string `json:"next_cursor"`
		}
		path := apitest.TimerPath(got.ID, "/fires") + "&state=open,failed&limit=1&cursor=" + cursor
		f.Call(t, http.MethodGet, path, "", nil).Into(t, 200, &page)
		for _, one := range page.Items {
			ids = append(ids, one.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, []string{got.ID + "-0-7", got.ID + "-0-8", got.ID + "-0-9"}, ids)
}
