package redisstate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/redisstate"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// countingState counts the calls of Sync.
type countingState struct {
	limit.SharedState
	n atomic.Int64
}

func (c *countingState) Sync(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	c.n.Add(1)
	return c.SharedState.Sync(ctx, executor, demands)
}

// TestExecutorsShareLimits: three executors over one Redis keep an app's rate and concurrency
// together, with far fewer round trips than calls.
func TestExecutorsShareLimits(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	const rate, burst, atOnce, calls = 400, 40, 30, 800
	ctx, cancel := context.WithCancel(t.Context())
	var runs, callers sync.WaitGroup
	var starts, running, most atomic.Int64
	state := &countingState{
		SharedState: newState(
			t,
			redisstate.Options{Addrs: addrs, Prefix: prefix, Timeout: 2 * time.Second},
		),
	}
	began := time.Now()
	// patience is ample: the calls take two seconds at the rate, on an idle machine.
	const patience = 2 * time.Minute
	for i := range 3 {
		l, err := limit.New(
			limit.Options{
				SharedState: state,
				Executor:    fmt.Sprint("e", i),
				Logger:      zerolog.Nop(),
				Timeout:     2 * time.Second,
			},
		)
		require.NoError(t, err)
		l.Set("shop", limit.Settings{Rate: rate, Burst: burst, Concurrent: atOnce})
		runs.Go(func() { _ = l.Run(ctx) })
		for range 40 { // more than may run, each as fast as permitted
			callers.Go(func() {
				for starts.Load() < calls && time.Since(began) < patience {
					start(ctx, l, "shop")
					starts.Add(1)
					n := running.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					pause(ctx, 30*time.Millisecond)
					running.Add(-1)
					l.Done("shop")
				}
			})
		}
	}
	callers.Wait()
	took := time.Since(began)
	cancel()
	runs.Wait()
	t.Logf(
		"%d calls in %s, at most %d concurrent, %d syncs",
		starts.Load(),
		took,
		most.Load(),
		state.n.Load(),
	)
	require.LessOrEqual(t, float64(starts.Load()), burst+rate*(took+limit.TokenTTL).Seconds())
	require.GreaterOrEqual(t, starts.Load(), int64(calls), "the rate is not given")
	require.LessOrEqual(t, most.Load(), int64(atOnce))
	// Calls of Sync are at least 10 ms apart, however many fires there are.
	require.LessOrEqual(t, float64(state.n.Load()), 3*(took.Seconds()/0.010+1))
}

// ready is a waiting fire. It is closed when the fire may start.
type ready chan struct{}

func (r ready) Ready() bool { close(r); return true }

// start asks until a call may start, as an executor does.
func start(ctx context.Context, l *limit.Limiter, app string) {
	w := make(ready)
	for a := (limit.Ask{App: app, Waiter: w, Hold: 5 * time.Second}); ; a.Returned = true {
		switch d := l.Start(a); {
		case d.OK:
			return
		case d.Waits:
			<-w
			return
		default:
			pause(ctx, time.Until(d.At))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
