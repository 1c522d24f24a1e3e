package upcoming_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2NextDue(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	next := func(name, schedule string) time.Time {
		got := f.Create(
			t,
			201,
			strings.Replace(apitest.With(schedule, `"status":"active"`), "bill", name, 1),
		)
		if got.NextDue == "" {
			return time.Time{}
		}
		due, err := time.Parse(time.RFC3339, got.NextDue)
		require.NoError(t, err)
		return due
	}
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Hour)
	at := func(v time.Time) string { return v.Format(time.RFC3339) }
	require.Equal(
		t,
		start.Add(time.Minute),
		next("window", `{"kind":"cron","specs":["1 * * * *"],"start_at":"`+at(start)+`"}`),
	)
	require.Zero(
		t,
		next("over", `{"kind":"cron","specs":["1 * * * *"],"end_at":"2020-01-01T00:00:00Z"}`),
	)
	require.WithinDuration(
		t,
		time.Now().Add(time.Hour),
		next("interval", `{"kind":"interval","every":"1h"}`),
		time.Minute,
	)
	require.WithinDuration(
		t,
		time.Now().Add(3*time.Hour),
		next("chain", `{"kind":"fixed_delay","every":"3h"}`),
		time.Minute,
	)
	require.WithinDuration(
		t,
		time.Now().Add(10*time.Minute),
		next("limited", `{"kind":"interval","every":"10m","max_fires":1}`),
		time.Minute,
	)
	require.Equal(t, start, next("at", `{"kind":"at","at":"`+at(start)+`"}`))
}

// TestNextDueOfALaggingClock checks that an API whose clock is behind the database's finds the first
// fire after the activation, also of a timer whose fires are all created.
func TestNextDueOfALaggingClock(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) {
		o.Now = func() time.Time { return time.Now().Add(-5 * time.Minute) }
	})
	due := time.Now().Add(30 * time.Second).UTC().Truncate(time.Second)
	for name, more := range map[string]string{"endless": "", "limited": `,"max_fires":3`} {
		got, _ := f.Active(t, name, `{"kind":"interval","every":"1m","anchor":"`+
			due.Add(-time.Hour).Format(time.RFC3339)+`"`+more+`}`)
		require.Equal(t, apitest.RFC(due), got.NextDue, name)
	}
}

// TestV2FixedDelayIsActivatedAgain checks next_due after each activation of a fixed delay.
func TestV2FixedDelayIsActivatedAgain(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "chain", `{"kind":"fixed_delay","every":"1h"}`)
	require.NotEmpty(t, got.NextDue)
	path := apitest.TimerPath(got.ID, "")
	require.Empty(t, f.Do(t, 200, http.MethodPatch, path, `{"status":"inactive"}`).NextDue)
	require.NotEmpty(t, f.Do(t, 200, http.MethodPatch, path, `{"status":"active"}`).NextDue)
	edited := f.Do(
		t,
		200,
		http.MethodPatch,
		path,
		`{"schedule":{"kind":"fixed_delay","every":"3h"}}`,
	)
	due, err := time.Parse(time.RFC3339, edited.NextDue)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(3*time.Hour), due, time.Minute)
}

// TestV2FixedDelayAmongManyRuns checks that run-nows do not hide when a fixed delay is due next.
func TestV2FixedDelayAmongManyRuns(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, id := f.Active(t, "chain", `{"kind":"fixed_delay","every":"1h"}`)
	tm, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	const session = 7
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	end := func(fire timer.FireID, next *timer.Fire) {
		rec, err := f.Store.Fire(t.Context(), "shop", fire)
		require.NoError(t, err)
		won, err := f.Store.Claim(t.Context(), session, []timer.Fire{*rec.Open})
		require.NoError(t, err)
		require.Len(t, won, 1)
		_, _, err = f.Store.Record(t.Context(), session, []timer.Outcome{{
			Fire: won[0], Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(),
			UntilMS: won[0].DueMS, Count: 1, Attempts: 1, Next: next,
		}}, nil)
		require.NoError(t, err)
	}
	due := time.Now().Add(2 * time.Hour).UnixMilli()
	next := timer.Fire{FireID: timer.FireID{Timer: id, DueMS: due}, RunAtMS: due}
	end(timer.FireID{Timer: id, DueMS: tm.LastDueMS}, &next)
	for range 12 {
		run := f.Call(t, http.MethodPost, apitest.TimerPath(got.ID, "/run"), "", nil)
		require.Less(t, run.Status, 300, run.Body)
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(run.Body), &made))
		fire, err := timer.ParseFireID(made.ID)
		require.NoError(t, err)
		end(fire, nil)
	}
	now := f.Do(t, 200, http.MethodGet, apitest.TimerPath(got.ID, ""), "")
	require.Equal(t, apitest.RFC(time.UnixMilli(due)), now.NextDue)
}
