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

// reasons counts a timer's finished instants by why they were skipped; delivered ones count as "".
func reasons(t *testing.T, w *world, id timer.ID) map[string]int64 {
	t.Helper()
	fires, err := w.api.History(t.Context(), w.app, id)
	require.NoError(t, err)
	n := make(map[string]int64)
	for i := range fires {
		n[fires[i].Reason] += fires[i].Count
	}
	return n
}

// TestPauseEndsByItself: a pause with an end stops the calls, and they go on after it without
// anybody's doing.
func TestPauseEndsByItself(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		asked := time.Now()
		id := w.active(t, "paused", client.Cron(everySecond), "/paused")
		on := time.Now()
		w.led.Every(id, time.Second, asked, on, ledger.May)
		pause(t, 3*time.Second)
		sure := w.heard(t, on, id)
		until := soon(8 * time.Second)
		w.led.Every(id, time.Second, on, sure, ledger.Must)
		tm, err := w.api.Pause(t.Context(), w.app, id, "stock-taking", until)
		require.NoError(t, err)
		require.Equal(t, "paused", tm.Status)
		require.Equal(t, "stock-taking", tm.Paused.Reason)
		off := time.Now()
		w.led.Every(id, time.Second, sure, off.Add(reach), ledger.May)
		w.led.Every(id, time.Second, off.Add(reach), until, ledger.Not)
		require.Eventually(t, func() bool {
			tm, err := w.api.Get(t.Context(), w.app, id)
			return err == nil && tm.Status == "active" && tm.Paused == nil
		}, patience, 100*time.Millisecond)
		back := time.Now()
		require.False(t, back.Before(until.Add(-clocks)))
		// Whoever notices the end, and when: what is due from that instant on is called.
		w.led.Every(id, time.Second, until, back.Add(4*time.Second), ledger.Must)
		pauseUntil(t, back.Add(4*time.Second))
		v := w.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonPaused])
	})
}

// TestOneShotsOutliveAPause: one that comes due during a pause is called when that ends, by itself
// or by somebody.
func TestOneShotsOutliveAPause(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		due := soon(4 * time.Second)
		ended := w.active(t, "pause that ends", client.At(due), "/ended")
		resumed := w.active(t, "pause that is ended", client.At(due), "/resumed")
		until := soon(12 * time.Second)
		_, err := w.api.Pause(t.Context(), w.app, ended, "", until)
		require.NoError(t, err)
		_, err = w.api.Pause(t.Context(), w.app, resumed, "", time.Time{})
		require.NoError(t, err)
		pauseUntil(t, due.Add(4*time.Second))
		require.Empty(t, w.rcv.Of(ended))
		require.Empty(t, w.rcv.Of(resumed))
		_, err = w.api.Resume(t.Context(), w.app, resumed)
		require.NoError(t, err)
		w.led.One(ended, due, ledger.Must)
		w.led.One(resumed, due, ledger.Must)
		w.settle(t)
		require.False(t, w.rcv.Of(ended)[0].Arrived().Before(until.Add(-clocks)))
	})
}

// TestResumeEndsAPause that nobody gave an end.
func TestResumeEndsAPause(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		id := w.active(t, "resumed", client.Cron(everySecond), "/resumed")
		_, err := w.api.Pause(t.Context(), w.app, id, "", time.Time{})
		require.NoError(t, err)
		off := time.Now()
		w.led.Every(id, time.Second, off.Add(reach), off.Add(5*time.Second), ledger.Not)
		pauseUntil(t, off.Add(5*time.Second))
		asked := time.Now()
		_, err = w.api.Resume(t.Context(), w.app, id)
		require.NoError(t, err)
		on := time.Now()
		w.led.Every(id, time.Second, off.Add(5*time.Second), asked, ledger.Not)
		w.led.Every(id, time.Second, asked, on, ledger.May)
		w.led.Every(id, time.Second, on, on.Add(3*time.Second), ledger.Must)
		pauseUntil(t, on.Add(3*time.Second))
		w.settle(t)
	})
}

// TestRunNow: a fire that somebody asks for is called at once, also of a timer that is not active,
// and once however often it is asked for under one key.
func TestRunNow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		tm, _, err := w.api.Create(t.Context(), client.NewTimer{
			App:      w.app,
			Name:     "asked",
			Schedule: client.Cron("0 0 1 1 *"),
			Target:   client.Post(w.rcv.URL("/asked")),
		})
		require.NoError(t, err)
		id := tm.TimerID()
		one, err := w.api.RunNow(t.Context(), w.app, id, "")
		require.NoError(t, err)
		require.Equal(t, "run_now", one.Cause)
		var eg errgroup.Group
		for range 8 {
			eg.Go(func() error {
				_, err := w.api.RunNow(t.Context(), w.app, id, "twice")
				return err //nolint:wrapcheck // the test tells it
			})
		}
		require.NoError(t, eg.Wait())
		require.Eventually(
			t,
			func() bool { return reasons(t, w, id)[""] == 2 },
			patience,
			50*time.Millisecond,
		)
		again, err := w.api.RunNow(t.Context(), w.app, id, "twice")
		require.NoError(t, err)
		require.Equal(t, "delivered", again.Status)
		pause(t, 3*time.Second)
		calls := w.rcv.Of(id)
		require.Len(t, calls, 2)
		require.Contains(t, []timer.FireID{calls[0].Fire, calls[1].Fire}, one.FireID())
		require.Less(t, calls.Lateness().P50, 8*time.Second, "the sweep comes after 10 s")
	})
}

// TestBackfill: a past range is called, each instant once, under a series of its own; a cancelled
// one ends.
func TestBackfill(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		tm, _, err := w.api.Create(t.Context(), client.NewTimer{
			App:      w.app,
			Name:     "history",
			Schedule: client.Cron("* * * * *"),
			Target:   client.Post(w.rcv.URL("/history")),
		})
		require.NoError(t, err)
		id := tm.TimerID()
		from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		b, err := w.api.Backfill(t.Context(), w.app, id, from, from.Add(time.Hour))
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(w.rcv.Of(id)) >= 60 },
			patience,
			50*time.Millisecond,
		)
		require.Eventually(
			t,
			func() bool { return reasons(t, w, id)[""] == 60 },
			patience,
			100*time.Millisecond,
		)
		b, err = w.api.GetBackfill(t.Context(), w.app, b.ID)
		require.NoError(t, err)
		require.Equal(t, "done", b.Status)
		require.EqualValues(t, 60, b.FiresCreated)
		dues := w.rcv.Of(id).Dues()
		require.Len(t, dues, 60)
		require.Equal(t, from.UnixMilli(), dues[0])
		require.Len(t, w.rcv.Of(id), 60)
		for _, a := range w.rcv.Of(id) {
			require.Equal(t, b.ID, timer.ID(a.Fire.Series).String())
		}

		tm, _, err = w.api.Create(t.Context(), client.NewTimer{
			App:      w.app,
			Name:     "cancelled",
			Schedule: client.Cron(everySecond),
			Target:   client.Post(w.rcv.URL("/cancelled")),
		})
		require.NoError(t, err)
		id = tm.TimerID()
		b, err = w.api.Backfill(t.Context(), w.app, id, from, from.Add(20*time.Hour))
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(w.rcv.Of(id)) > 0 },
			patience,
			10*time.Millisecond,
		)
		b, err = w.api.CancelBackfill(t.Context(), w.app, b.ID)
		require.NoError(t, err)
		require.Equal(t, "cancelled", b.Status)
		require.Less(t, b.FiresCreated, int64(20*3600))
		require.Eventually(t, func() bool {
			var all int64
			for _, n := range reasons(t, w, id) {
				all += n
			}
			return all == b.FiresCreated
		}, patience, 300*time.Millisecond, "each has its outcome")
		called := len(w.rcv.Of(id))
		n := reasons(t, w, id)
		require.EqualValues(t, called, n[""])
		require.Equal(t, b.FiresCreated, n[""]+n["cancelled"])
		pause(t, 3*time.Second)
		require.Len(t, w.rcv.Of(id), called)
	})
}

// TestFreezeStopsAnApp: all timers of an app, and no other app's.
func TestFreezeStopsAnApp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		ids := []timer.ID{
			w.active(t, "one", client.Cron(everySecond), "/frozen"),
			w.active(t, "two", client.Cron(everySecond), "/frozen"),
		}
		on := time.Now()
		pause(t, 3*time.Second)
		before := w.heard(t, on, ids...)
		a, err := w.api.Freeze(t.Context(), w.app, "incident")
		require.NoError(t, err)
		require.True(t, a.Frozen)
		off := time.Now()
		for _, id := range ids {
			require.Eventually(
				t,
				func() bool { return reasons(t, w, id)[string(timer.ReasonFrozen)] >= 5 },
				patience,
				200*time.Millisecond,
			)
		}
		stood := w.outcomesOf(t, ids...)
		thaw := time.Now()
		a, err = w.api.Unfreeze(t.Context(), w.app)
		require.NoError(t, err)
		require.False(t, a.Frozen)
		back := time.Now().Add(reach)
		pauseUntil(t, back.Add(3*time.Second))
		for _, id := range ids {
			w.led.Every(id, time.Second, on, before, ledger.Must)
			// what is due just before the thaw may be decided after it.
			w.led.Every(id, time.Second, before, back, ledger.May)
			w.led.Every(id, time.Second, back, back.Add(3*time.Second), ledger.Must)
		}
		for _, o := range stood {
			for due := o.Fire.DueMS; o.Reason == timer.ReasonFrozen && due <= max(o.Fire.DueMS, o.UntilMS); due += time.Second.Milliseconds() {
				w.led.One(o.Fire.Timer, time.UnixMilli(due), ledger.Not)
			}
		}
		for _, c := range w.rcv.Of(ids...) {
			if due := time.UnixMilli(c.Fire.DueMS); due.After(off.Add(reach)) {
				require.False(
					t,
					c.Arrived().Before(thaw),
					"%s is called while its app is frozen",
					c.Fire,
				)
			}
		}
		v := w.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonFrozen])
	})
}

// TestRescheduleMovesAOneShot: it is called at the new instant and not at the old, sooner or later;
// one that has fired cannot be moved.
func TestRescheduleMovesAOneShot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		old := soon(10 * time.Second)
		sooner, later := old.Add(-4*time.Second), old.Add(4*time.Second)
		ids := w.oneShots(t, "moved", "/moved", old, old)
		for i, to := range []time.Time{sooner, later} {
			_, err := w.api.Reschedule(t.Context(), w.app, ids[i], to)
			require.NoError(t, err)
			w.led.One(ids[i], old, ledger.Not)
			w.led.One(ids[i], to, ledger.Must)
		}
		pauseUntil(t, later.Add(2*time.Second))
		w.settle(t)
		_, err := w.api.Reschedule(t.Context(), w.app, ids[0], time.Now().Add(time.Hour))
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, http.StatusConflict, e.Status)
	})
}
