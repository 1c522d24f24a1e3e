package scenario

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// reasons counts a timer's finished fires by skip reason. Delivered fires count as "".
func reasons(t *testing.T, env *environment, id timer.ID) map[string]int64 {
	t.Helper()
	fires, err := env.api.History(t.Context(), env.app, id)
	require.NoError(t, err)
	n := make(map[string]int64)
	for i := range fires {
		n[fires[i].Reason] += fires[i].Count
	}
	return n
}

// TestPauseEndsByItself checks that a pause with an end stops the calls, and that they continue
// after its end without a request.
func TestPauseEndsByItself(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		asked := time.Now()
		id := env.active(t, "paused", client.Cron(everySecond), "/paused")
		on := time.Now()
		env.led.AddEvery(id, time.Second, asked, on, ledger.May)
		pause(t, 3*time.Second)
		sure := env.awaitCalled(t, on, id)
		until := soon(8 * time.Second)
		env.led.AddEvery(id, time.Second, on, sure, ledger.Must)
		tm, err := env.api.Pause(t.Context(), env.app, id, "stock-taking", until)
		require.NoError(t, err)
		require.Equal(t, "paused", tm.Status)
		require.Equal(t, "stock-taking", tm.Paused.Reason)
		off := time.Now()
		env.led.AddEvery(id, time.Second, sure, off.Add(reach), ledger.May)
		env.led.AddEvery(id, time.Second, off.Add(reach), until, ledger.Not)
		require.Eventually(t, func() bool {
			tm, err := env.api.Get(t.Context(), env.app, id)
			return err == nil && tm.Status == "active" && tm.Paused == nil
		}, patience, 100*time.Millisecond)
		back := time.Now()
		require.False(t, back.Before(until.Add(-clockTolerance)))
		// Fires due from the pause's end on are called, whenever a process notices the end.
		env.led.AddEvery(id, time.Second, until, back.Add(4*time.Second), ledger.Must)
		pauseUntil(t, back.Add(4*time.Second))
		v := env.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonPaused])
	})
}

// TestOneShotsSurvivePause checks that a one-shot which falls due during a pause is called at the
// pause's end, whether it ends by itself or by a request.
func TestOneShotsSurvivePause(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		due := soon(4 * time.Second)
		ended := env.active(t, "pause that ends", client.At(due), "/ended")
		resumed := env.active(t, "pause that is ended", client.At(due), "/resumed")
		env.awaitPlanned(t, []timer.ID{ended, resumed}, due, due)
		until := soon(12 * time.Second)
		_, err := env.api.Pause(t.Context(), env.app, ended, "", until)
		require.NoError(t, err)
		_, err = env.api.Pause(t.Context(), env.app, resumed, "", time.Time{})
		require.NoError(t, err)
		pauseUntil(t, due.Add(4*time.Second))
		require.Empty(t, env.rcv.Of(ended))
		require.Empty(t, env.rcv.Of(resumed))
		_, err = env.api.Resume(t.Context(), env.app, resumed)
		require.NoError(t, err)
		env.led.Add(ended, due, ledger.Must)
		env.led.Add(resumed, due, ledger.Must)
		env.settle(t)
		require.False(t, env.rcv.Of(ended)[0].Arrived().Before(until.Add(-clockTolerance)))
	})
}

// TestResumeEndsAPause checks that resume ends a pause without an end.
func TestResumeEndsAPause(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		id := env.active(t, "resumed", client.Cron(everySecond), "/resumed")
		_, err := env.api.Pause(t.Context(), env.app, id, "", time.Time{})
		require.NoError(t, err)
		off := time.Now()
		env.led.AddEvery(id, time.Second, off.Add(reach), off.Add(5*time.Second), ledger.Not)
		pauseUntil(t, off.Add(5*time.Second))
		asked := time.Now()
		_, err = env.api.Resume(t.Context(), env.app, id)
		require.NoError(t, err)
		on := time.Now()
		env.led.AddEvery(id, time.Second, off.Add(5*time.Second), asked, ledger.Not)
		env.led.AddEvery(id, time.Second, asked, on, ledger.May)
		env.led.AddEvery(id, time.Second, on, on.Add(3*time.Second), ledger.Must)
		pauseUntil(t, on.Add(3*time.Second))
		env.settle(t)
	})
}

// TestRunNow checks that a requested fire is called at once, also for an inactive timer. Repeated
// requests under one key make one fire.
func TestRunNow(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "asked",
			Schedule: client.Cron("0 0 1 1 *"),
			Target:   client.Post(env.rcv.URL("/asked")),
		})
		require.NoError(t, err)
		id := tm.TimerID()
		one, err := env.api.RunNow(t.Context(), env.app, id, "")
		require.NoError(t, err)
		require.Equal(t, "run_now", one.Cause)
		var eg errgroup.Group
		for range 8 {
			eg.Go(func() error {
				_, err := env.api.RunNow(t.Context(), env.app, id, "twice")
				return err //nolint:wrapcheck // the test tells it
			})
		}
		require.NoError(t, eg.Wait())
		require.Eventually(
			t,
			func() bool { return reasons(t, env, id)[""] == 2 },
			patience,
			50*time.Millisecond,
		)
		again, err := env.api.RunNow(t.Context(), env.app, id, "twice")
		require.NoError(t, err)
		require.Equal(t, "delivered", again.Status)
		pause(t, 3*time.Second)
		calls := env.rcv.Of(id)
		require.Len(t, calls, 2)
		require.Contains(t, []timer.FireID{calls[0].Fire, calls[1].Fire}, one.FireID())
		require.Less(t, calls.Lateness().P50, 8*time.Second, "overdue fires are found after 10 s")
	})
}

// TestBackfill checks that the fires of a past range are called once each, in their own series, and
// that a cancelled backfill ends.
func TestBackfill(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "history",
			Schedule: client.Cron("* * * * *"),
			Target:   client.Post(env.rcv.URL("/history")),
		})
		require.NoError(t, err)
		id := tm.TimerID()
		from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		b, err := env.api.Backfill(t.Context(), env.app, id, from, from.Add(time.Hour))
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= 60 },
			patience,
			50*time.Millisecond,
		)
		require.Eventually(
			t,
			func() bool { return reasons(t, env, id)[""] == 60 },
			patience,
			100*time.Millisecond,
		)
		b, err = env.api.GetBackfill(t.Context(), env.app, b.ID)
		require.NoError(t, err)
		require.Equal(t, "done", b.Status)
		require.EqualValues(t, 60, b.FiresCreated)
		dues := env.rcv.Of(id).Dues()
		require.Len(t, dues, 60)
		require.Equal(t, from.UnixMilli(), dues[0])
		require.Len(t, env.rcv.Of(id), 60)
		for _, a := range env.rcv.Of(id) {
			require.Equal(t, b.ID, timer.ID(a.Fire.Series).String())
		}

		tm, _, err = env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "cancelled",
			Schedule: client.Cron(everySecond),
			Target:   client.Post(env.rcv.URL("/cancelled")),
		})
		require.NoError(t, err)
		id = tm.TimerID()
		b, err = env.api.Backfill(t.Context(), env.app, id, from, from.Add(20*time.Hour))
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) > 0 },
			patience,
			10*time.Millisecond,
		)
		b, err = env.api.CancelBackfill(t.Context(), env.app, b.ID)
		require.NoError(t, err)
		require.Equal(t, "cancelled", b.Status)
		require.Less(t, b.FiresCreated, int64(20*3600))
		require.Eventually(t, func() bool {
			var all int64
			for _, n := range reasons(t, env, id) {
				all += n
			}
			return all == b.FiresCreated
		}, patience, 300*time.Millisecond, "each fire has an outcome")
		called := len(env.rcv.Of(id))
		n := reasons(t, env, id)
		require.EqualValues(t, called, n[""])
		require.Equal(t, b.FiresCreated, n[""]+n["cancelled"])
		pause(t, 3*time.Second)
		require.Len(t, env.rcv.Of(id), called)
	})
}

// TestFreezeStopsAnApp checks that a freeze stops all timers of an app, and no other app's.
func TestFreezeStopsAnApp(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		ids := []timer.ID{
			env.active(t, "one", client.Cron(everySecond), "/frozen"),
			env.active(t, "two", client.Cron(everySecond), "/frozen"),
		}
		on := time.Now()
		pause(t, 3*time.Second)
		before := env.awaitCalled(t, on, ids...)
		a, err := env.api.Freeze(t.Context(), env.app, "incident")
		require.NoError(t, err)
		require.True(t, a.Frozen)
		off := time.Now()
		for _, id := range ids {
			require.Eventually(
				t,
				func() bool { return reasons(t, env, id)[string(timer.ReasonFrozen)] >= 5 },
				patience,
				200*time.Millisecond,
			)
		}
		stood := env.outcomesOf(t, ids...)
		thaw := time.Now()
		a, err = env.api.Unfreeze(t.Context(), env.app)
		require.NoError(t, err)
		require.False(t, a.Frozen)
		back := time.Now().Add(reach)
		pauseUntil(t, back.Add(3*time.Second))
		for _, id := range ids {
			env.led.AddEvery(id, time.Second, on, before, ledger.Must)
			// A fire that is due just before the thaw may be decided after it.
			env.led.AddEvery(id, time.Second, before, back, ledger.May)
			env.led.AddEvery(id, time.Second, back, back.Add(3*time.Second), ledger.Must)
		}
		for _, o := range stood {
			for due := o.Fire.DueMS; o.Reason == timer.ReasonFrozen && due <= max(o.Fire.DueMS, o.UntilMS); due += time.Second.Milliseconds() {
				env.led.Add(o.Fire.Timer, time.UnixMilli(due), ledger.Not)
			}
		}
		for _, c := range env.rcv.Of(ids...) {
			if due := time.UnixMilli(c.Fire.DueMS); due.After(off.Add(reach)) {
				require.False(
					t,
					c.Arrived().Before(thaw),
					"%s is called while its app is frozen",
					c.Fire,
				)
			}
		}
		v := env.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonFrozen])
	})
}

// TestRescheduleMovesAOneShot checks that a one-shot is called at its new instant and not at the
// old one, sooner or later. A one-shot that has fired cannot be moved.
func TestRescheduleMovesAOneShot(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		old := soon(10 * time.Second)
		sooner, later := old.Add(-4*time.Second), old.Add(4*time.Second)
		ids := env.oneShots(t, "moved", "/moved", old, old)
		for i, to := range []time.Time{sooner, later} {
			_, err := env.api.Reschedule(t.Context(), env.app, ids[i], to)
			require.NoError(t, err)
			env.led.Add(ids[i], old, ledger.Not)
			env.led.Add(ids[i], to, ledger.Must)
		}
		pauseUntil(t, later.Add(2*time.Second))
		env.settle(t)
		_, err := env.api.Reschedule(t.Context(), env.app, ids[0], time.Now().Add(time.Hour))
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, http.StatusConflict, e.Status)
	})
}
