package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// leaving is a bus whose consumers close slowly, as with a busy broker.
type leaving struct {
	executor.Bus
	takes time.Duration
}

type slowConsumer struct {
	bus.Consumer
	takes time.Duration
}

func (l leaving) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	c, err := l.Bus.Subscribe(ctx, s, h)
	return slowConsumer{c, l.takes}, err
}

func (c slowConsumer) Close() error {
	time.Sleep(c.takes)
	return c.Consumer.Close()
}

// TestStopCallsOnTimeWhileUnsubscribing checks that fires due while a stopping executor waits for
// the broker are called, once.
func TestStopCallsOnTimeWhileUnsubscribing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		stop := start(
			t,
			parts,
			"a",
			r,
			func(o *executor.Options) { o.Bus = leaving{parts.Bus("a"), 3 * time.Second} },
		)
		fires := parts.Create("shop", soon(20, 1500*time.Millisecond)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Second) // they are in flight
		stop()
		calls, at := r.seen()
		require.Len(t, calls, 20)
		for i, c := range calls {
			require.WithinDuration(t, time.UnixMilli(c.PlannedMS), at[i], 50*time.Millisecond)
		}
	})
}

// stopCaller answers by the app of a call.
type stopCaller struct {
	*receiver

	byApp map[string]func(ctx context.Context, q *callback.Request) callback.Result
}

func (c stopCaller) Call(ctx context.Context, q *callback.Request) callback.Result {
	_ = c.receiver.Call(ctx, q)
	if f := c.byApp[q.App]; f != nil {
		return f(ctx, q)
	}
	return callback.Result{Class: callback.Success, StatusCode: 200}
}

// of returns when the calls of an app began.
func (r *receiver) of(app string) (at []time.Time) {
	calls, all := r.seen()
	for i := range calls {
		if calls[i].App == app {
			at = append(at, all[i])
		}
	}
	return at
}

// slowRecords is a store that answers no record between two instants.
type slowRecords struct {
	store.Store

	from, to time.Time
}

func (s slowRecords) Record(
	ctx context.Context, session timer.ID, os []timer.Outcome, as []timer.Attempt,
) ([]timer.FireID, []timer.Fire, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.to) {
		clock.Pause(ctx, s.to.Sub(now))
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return s.Store.Record(ctx, session, os, as)
}

// TestStopDuringALongCall stops an executor while one call takes longer than the grace period.
// Another executor makes the retries of other calls in time, and no call that ended within the grace
// period is repeated, though the database answers only after it.
func TestStopDuringALongCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		const grace = 20 * time.Second
		begin := time.Now()
		due, stopAt := begin.Add(3*time.Second), begin.Add(4*time.Second)
		cutOff := stopAt.Add(grace)
		success := callback.Result{Class: callback.Success, StatusCode: 200}
		failure := callback.Result{
			Class:      callback.Retry,
			Failure:    timer.FailureStatus,
			StatusCode: 500,
		}
		r := new(receiver)
		c := stopCaller{r, map[string]func(context.Context, *callback.Request) callback.Result{
			"long": func(ctx context.Context, _ *callback.Request) callback.Result {
				if clock.Pause(ctx, 5*grace); ctx.Err() != nil {
					return failure
				}
				return success
			},
			"edge": func(ctx context.Context, _ *callback.Request) callback.Result {
				clock.Pause(ctx, time.Until(cutOff.Add(-500*time.Millisecond)))
				return success
			},
			"retried": func(ctx context.Context, q *callback.Request) callback.Result {
				if q.Attempt > 1 {
					return success
				}
				clock.Pause(ctx, 1500*time.Millisecond) // the executor is stopping then
				return failure
			},
		}}
		stop := start(t, parts, "stops", r, func(o *executor.Options) {
			o.Caller, o.DrainTimeout = c, grace
			o.Store = slowRecords{
				o.Store.(store.Store), cutOff.Add(-time.Second), cutOff.Add(time.Second),
			}
		})
		retry := timer.DefaultRetry()
		retry.Timeout = timer.Duration(10 * grace)
		for app := range c.byApp {
			d := soon(1, time.Until(due))
			d[0].Retry = retry
			require.NoError(t, parts.Dispatch.Publish(t.Context(), parts.Create(app, d...)))
		}
		time.Sleep(time.Until(due)) // they are in flight
		start(t, parts, "stays", r, func(o *executor.Options) {
			o.Caller, o.PollAhead = c, time.Second
		})
		time.Sleep(time.Until(stopAt))
		stop()
		require.WithinDuration(t, cutOff.Add(time.Second), time.Now(), 100*time.Millisecond)
		time.Sleep(10 * grace)

		require.Len(t, r.of("edge"), 1)
		require.Len(t, r.of("long"), 2)
		retried := r.of("retried")
		require.Len(t, retried, 2)
		require.Less(t, retried[1].Sub(retried[0]), 5*time.Second)
	})
}

// slowReleases is a store in which each release takes a while.
type slowReleases struct {
	store.Store

	takes time.Duration
}

func (s slowReleases) Release(
	ctx context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
) ([]timer.Fire, error) {
	if clock.Pause(ctx, s.takes); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.Store.Release(ctx, session, fires, attempts)
}

// TestStopRecordsResultsBesideReleases stops an executor that holds more fires than it can release
// in time. The results of calls that end meanwhile do not wait behind them: no call is repeated,
// whatever follows its attempt.
func TestStopRecordsResultsBesideReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		begin := time.Now()
		stopAt := begin.Add(3 * time.Second)
		answers := map[string]callback.Result{
			"delivered": {Class: callback.Success, StatusCode: 200},
			"accepted": {
				Class: callback.Accepted, StatusCode: 202, CompleteWithin: time.Hour,
			},
			"retried": {Class: callback.Retry, Failure: timer.FailureStatus, StatusCode: 500},
		}
		r := new(receiver)
		c := stopCaller{r, map[string]func(context.Context, *callback.Request) callback.Result{}}
		for app, answer := range answers {
			c.byApp[app] = func(ctx context.Context, _ *callback.Request) callback.Result {
				clock.Pause(ctx, time.Until(stopAt.Add(500*time.Millisecond)))
				return answer
			}
		}
		slow := func(o *executor.Options) {
			o.Caller, o.DrainTimeout, o.RecordTimeout = c, 5*time.Second, 2*time.Second
			o.Store = slowReleases{o.Store.(store.Store), time.Second}
		}
		stop := start(t, parts, "stops", r, slow)
		for app := range answers {
			d := soon(1, 2*time.Second)
			d[0].Retry = timer.DefaultRetry()
			d[0].Retry.Wait = timer.Duration(time.Hour)
			require.NoError(t, parts.Dispatch.Publish(t.Context(), parts.Create(app, d...)))
		}
		held := parts.Create("held", soon(8_000, 7*time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), held))
		time.Sleep(time.Until(stopAt))
		start(t, parts, "stays", r, func(o *executor.Options) { o.Caller = c })
		stop()
		require.WithinDuration(
			t, stopAt.Add(7*time.Second), time.Now(), 100*time.Millisecond, "it released all",
		)
		time.Sleep(20 * time.Second)

		require.Len(t, r.of("held"), len(held))
		for app := range answers {
			require.Len(t, r.of(app), 1, app)
		}
	})
}
