package executor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestFiresOfAPauseAreSkippedAfterALongOutage checks that what was due during a pause is skipped,
// although executors were away for longer than history is kept.
func TestFiresOfAPauseAreSkippedAfterALongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		parts := servicetest.New(t, servicetest.Options{})
		fires := everySecond(parts, 30, func(d *timer.Definition) {
			d.Misfire.Grace = timer.Duration(100 * time.Hour)
		})
		set := func(status timer.Status) {
			t.Helper()
			out, err := parts.Store.SetStatus(ctx, []store.StatusChange{
				{App: "a", ID: fires[0].Timer, Status: status},
			}, parts.Plan)
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
		}
		set(timer.StatusPaused)
		time.Sleep(time.Minute)
		set(timer.StatusActive)
		time.Sleep(time.Minute)
		set(timer.StatusPaused) // another pause, so that the state alone does not know the first
		time.Sleep(time.Minute)
		set(timer.StatusActive)
		time.Sleep(48 * time.Hour)
		require.NoError(t, parts.Store.PurgeExpired(ctx, 24*time.Hour))
		start(t, parts, "one", new(receiver), nil)
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int{"skipped:paused": 30}, reasons(t, parts, fires))
	})
}

// TestEachOutageHasAStandIn checks that fire_once calls one late fire after each of two outages,
// when jitter plans fires for the second one that are due before the first one ended.
func TestEachOutageHasAStandIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := everySecond(parts, 100, func(d *timer.Definition) {
			d.Schedule.Jitter = timer.Duration(20 * time.Minute)
			end := time.Now().Add(100 * time.Second) // the fires below are all that there are
			d.Schedule.EndAt = &end
			d.Misfire = timer.Misfire{Policy: timer.MisfireFireOnce}
		})
		r := new(receiver)
		time.Sleep(8 * time.Minute)
		stop := start(t, parts, "one", r, nil)
		time.Sleep(30 * time.Second)
		stop()
		time.Sleep(time.Second)
		first := reasons(t, parts, fires)
		t.Log("after the first outage", first)
		require.Positive(t, first["delivered"])
		require.Greater(t, first["open"], 20)
		time.Sleep(20 * time.Minute)
		start(t, parts, "two", r, nil)
		time.Sleep(30 * time.Second)
		second := reasons(t, parts, fires)
		t.Log("after the second outage", second)
		require.Zero(t, second["open"])
		require.Equal(
			t,
			first["delivered"]+1,
			second["delivered"],
			"one late fire of the second outage is called",
		)
	})
}

// rejects answers calls of the app "bad" in a way that is not retried.
func rejects(q *callback.Request) callback.Result {
	if q.App == "bad" {
		return callback.Result{
			Class: callback.Reject, Failure: timer.FailureStatus, StatusCode: 400,
		}
	}
	return callback.Result{Class: callback.Success, StatusCode: 200}
}

// TestFailedFiresWithoutTheBroker fails more fires of one app than the executor holds, while the
// broker is away. Another app's fires are on time, and no failed fire is called again, nor by the
// executor's successor. Dead letters are published once the broker is back: here those of the
// successor, as schedulers publish those of an executor that is gone.
func TestFailedFiresWithoutTheBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: rejects}
		change := func(o *executor.Options) {
			o.PollAhead = time.Second
			o.MaxInflight = 100
			o.DrainTimeout = 5 * time.Second
		}
		letters := deadLetters(t, parts)
		stop := start(t, parts, "one", r, change)
		parts.Broker.Pause()
		bad := parts.Create("bad", soon(70, 3*time.Second)...)
		time.Sleep(10 * time.Second)
		good := parts.Create("good", soon(10, 5*time.Second)...)
		time.Sleep(30 * time.Second)
		require.Equal(t,
			map[timer.OutcomeKind]int{timer.Failed: len(bad)}, outcomes(t, parts, "bad", bad))
		require.Equal(t,
			map[timer.OutcomeKind]int{timer.Delivered: len(good)}, outcomes(t, parts, "good", good))
		calls, at := r.seen()
		for i, c := range calls {
			require.Less(t, at[i].Sub(time.UnixMilli(c.PlannedMS)), time.Second)
		}

		began := time.Now()
		stop()
		require.Less(t, time.Since(began), 5*time.Second, "nothing waits for the broker")
		start(t, parts, "two", r, change)
		more := parts.Create("bad", soon(5, 3*time.Second)...)
		time.Sleep(time.Minute)
		require.Equal(t, len(bad)+len(good)+len(more), r.total(), "a failed fire is called once")
		require.Empty(t, letters())

		parts.Broker.Resume()
		time.Sleep(2 * time.Minute)
		found := make(map[int64]bool)
		for _, l := range letters() {
			found[l.GetTask().GetTimerId()] = true
			require.Equal(t, "bad", l.GetApp())
			require.Equal(t, "rejected", l.GetReason())
		}
		require.Len(t, found, len(more))
		for _, f := range more {
			require.True(t, found[int64(f.Timer)])
		}
	})
}

// TestFailureWithoutTheBrokerEndsItsTurn fails a fire of a timer that runs one at a time, while the
// broker is away. The fires after it are called.
func TestFailureWithoutTheBrokerEndsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		failed := false
		r.answer = func(*callback.Request) callback.Result {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !failed {
				failed = true
				return rejects(&callback.Request{App: "bad"})
			}
			return rejects(&callback.Request{})
		}
		start(t, parts, "one", r, func(o *executor.Options) { o.PollAhead = time.Second })
		parts.Broker.Pause()
		fires := everySecond(parts, 20, func(d *timer.Definition) {
			d.Concurrency = timer.Concurrency{Policy: timer.ConcurrencySkip}
		})
		time.Sleep(30 * time.Second)
		require.Equal(t,
			map[string]int{"failed:rejected": 1, "delivered": len(fires) - 1},
			reasons(t, parts, fires))
	})
}

// TestTurnsWithoutTheBroker runs a timer one fire at a time beside one whose next fire is made with
// each record, while the broker is away. No fire waits for a record that waits for the broker.
func TestTurnsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: func(*callback.Request) callback.Result {
			time.Sleep(300 * time.Millisecond)
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		start(t, parts, "one", r, func(o *executor.Options) { o.PollAhead = time.Second })
		delay := servicetest.Cron("", "http://127.0.0.1/")
		delay.Schedule = timer.Schedule{
			Kind: timer.KindFixedDelay, Every: timer.Duration(time.Second),
		}
		parts.Create("b", delay)
		fires := everySecond(parts, 60, func(d *timer.Definition) {
			d.Concurrency = timer.Concurrency{Policy: timer.ConcurrencySkip}
		})
		time.Sleep(10 * time.Second)
		parts.Broker.Pause()
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{"delivered": len(fires)}, reasons(t, parts, fires))
	})
}
