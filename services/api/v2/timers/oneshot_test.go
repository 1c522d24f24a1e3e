package timers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2RescheduleSaysWhatTheFireDoes checks that moving a one-shot that has come due reports its
// state, and never calls it twice.
func TestV2RescheduleSaysWhatTheFireDoes(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	refused := func(name, want string, become func(fire timer.Fire)) {
		t.Helper()
		before := len(f.Dispatched.All())
		got, _ := f.Active(t, name, `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
		fires := f.Dispatched.All()[before:]
		require.Len(t, fires, 1)
		become(fires[0])
		p := f.Problem(
			t,
			409,
			http.MethodPost,
			apitest.TimerPath(got.ID, "/reschedule"),
			`{"delay":"1h"}`,
		)
		require.Regexp(t, want, p.Detail, name)
		require.NotContains(t, p.Detail, "over", name)
	}
	claim := func(fire timer.Fire) timer.Fire {
		won, err := f.Store.Claim(t.Context(), session, []timer.Fire{fire})
		require.NoError(t, err)
		require.Len(t, won, 1)
		return won[0]
	}
	release := func(fire timer.Fire, state timer.FireState, attempt int32) {
		fire = claim(fire)
		fire.State, fire.Attempt, fire.RunAtMS = state, attempt, time.Now().
			Add(time.Hour).
			UnixMilli()
		_, err := f.Store.Release(t.Context(), session, []timer.Fire{fire}, nil)
		require.NoError(t, err)
	}
	refused("due", "^its fire is due at .*Z, and to be called at once$", func(timer.Fire) {})
	refused(
		"held",
		"^its fire is due at .*Z and with an executor",
		func(fire timer.Fire) { claim(fire) },
	)
	refused(
		"retried",
		"^its fire is being called: attempt 2 is to be made at .*Z$",
		func(fire timer.Fire) { release(fire, timer.FireRetrying, 1) },
	)
	refused(
		"accepted",
		"^its fire was called, and waits for its receiver",
		func(fire timer.Fire) { release(fire, timer.FireAccepted, 1) },
	)
	refused(
		"limited",
		"^its fire is due at .*Z, and waits for the limits",
		func(fire timer.Fire) { release(fire, timer.FireDeferred, 0) },
	)
	refused(
		"queued",
		"^its fire is due at .*Z, and waits for the fire before it",
		func(fire timer.Fire) { release(fire, timer.FireWaiting, 0) },
	)
	refused(
		"put off",
		"^its fire is due at .*Z, and to be called at .*Z$",
		func(fire timer.Fire) { release(fire, timer.FireReady, 0) },
	)
	refused(
		"delivered",
		"^its fire was called at .*Z: delivered$",
		func(fire timer.Fire) { f.Finish(t, session, []timer.Fire{fire}, timer.Delivered) },
	)
	refused(
		"skipped",
		`^its fire was due at .*Z and not called: skipped \(frozen\)$`,
		func(fire timer.Fire) {
			won := claim(fire)
			_, _, err := f.Store.Record(t.Context(), session, []timer.Outcome{
				{
					Fire:       won,
					Kind:       timer.Skipped,
					Reason:     timer.ReasonFrozen,
					FinishedMS: time.Now().UnixMilli(),
					UntilMS:    won.DueMS,
					Count:      1,
				},
			}, nil)
			require.NoError(t, err)
		},
	)

	// A one-shot that came due while its timer was paused can still be moved.
	before := len(f.Dispatched.All())
	got, _ := f.Active(t, "waiting", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
	f.Do(t, 200, http.MethodPost, apitest.TimerPath(got.ID, "/pause"), "")
	won := claim(f.Dispatched.All()[before])
	_, err := f.Store.Defer(
		t.Context(),
		session,
		[]store.Deferral{{Fire: won, RunAtMS: timer.DeferredMS}},
	)
	require.NoError(t, err)
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	f.Do(
		t,
		200,
		http.MethodPost,
		apitest.TimerPath(got.ID, "/reschedule"),
		`{"at":"`+apitest.RFC(later)+`"}`,
	)
	require.Equal(
		t,
		apitest.RFC(later),
		f.Do(t, 200, http.MethodPost, apitest.TimerPath(got.ID, "/resume"), "").NextDue,
	)
}

// TestV2RescheduleOfWhatMigratorsHaveLeft refuses to move a one-shot that has come due and that no
// migrator has expanded, and changes nothing.
func TestV2RescheduleOfWhatMigratorsHaveLeft(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	at := time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
	made, err := f.Store.Create(t.Context(), []store.NewTimer{{
		App:  "shop",
		Name: "left",
		Definition: timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindAt, At: &at},
			Target:   timer.Target{Kind: timer.KindHTTP, URL: "http://127.0.0.1", Method: "POST"},
			Retry:    timer.DefaultRetry(),
		},
		Activate: true,
	}}, func(*timer.Timer, int64) store.Plan {
		return store.Plan{NextDueMS: at.UnixMilli(), ExpandAtMS: at.UnixMilli()}
	})
	require.NoError(t, err)
	require.NoError(t, made[0].Err)
	p := f.Problem(
		t,
		409,
		http.MethodPost,
		apitest.TimerPath(made[0].Timer.ID.String(), "/reschedule"),
		`{"delay":"1h"}`,
	)
	require.Regexp(
		t,
		"^it came due meanwhile: its fire is due at .*Z, and not expanded yet$",
		p.Detail,
	)
	now, err := f.Store.Timer(t.Context(), "shop", made[0].Timer.ID)
	require.NoError(t, err)
	require.Equal(t, made[0].Timer, now)
}

// TestV2EditOfAClaimedOneShot checks that an edit of the schedule says that the fire is claimed, which
// no other version would change.
func TestV2EditOfAClaimedOneShot(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	at := func(in time.Duration) string {
		return `{"kind":"at","at":"` + apitest.RFC(time.Now().Add(in)) + `"}`
	}
	tm, _ := e.Active(t, "once", at(10*time.Minute))
	fires := e.Dispatched.All()
	require.Len(t, fires, 1)
	e.Claimed(t, fires)
	p := e.Problem(t, http.StatusConflict, http.MethodPatch, apitest.TimerPath(tm.ID, ""),
		`{"schedule":`+at(20*time.Minute)+`}`)
	require.Contains(t, p.Detail, "create another timer instead")
	now := e.Do(t, http.StatusOK, http.MethodGet, apitest.TimerPath(tm.ID, ""), "")
	require.Equal(t, 1, now.Version)
}
