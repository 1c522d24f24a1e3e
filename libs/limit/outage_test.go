package limit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// hammer starts calls of an app for a while, as many as may, and returns their number.
func hammer(d time.Duration, app string, ls ...*limit.Limiter) int {
	var all sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for _, l := range ls {
		for range 3 {
			all.Go(func() {
				for time.Since(began) < d {
					startRetrying(l, app)
					n.Add(1)
					time.Sleep(time.Millisecond)
					l.Done(app)
				}
			})
		}
	}
	all.Wait()
	return int(n.Load())
}

// losing lets the shared state fail for one app, which the limiters call all the time. It returns
// when that is noticed.
func losing(
	ctx context.Context,
	state *countingState,
	app string,
	ls ...*limit.Limiter,
) (wait func()) {
	var all sync.WaitGroup
	for _, l := range ls {
		all.Go(func() {
			for ctx.Err() == nil {
				startRetrying(l, app)
				l.Done(app)
			}
		})
	}
	time.Sleep(time.Second)
	state.lost.Store(&app)
	time.Sleep(time.Second)
	return all.Wait
}

// TestOneAppUnavailable loses the state of one app. The limits of another hold over both executors,
// and one executor can use all of them.
func TestOneAppUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("lost", limit.Settings{Rate: 100, Burst: 10})
			l.Set("kept", limit.Settings{Rate: 100, Burst: 10})
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := losing(ctx, state, "lost", ls...)
		require.InDelta(t, 500, hammer(5*time.Second, "kept", ls[0]), 50, "by one executor")
		before := state.lostSyncs.Load()
		n := hammer(10*time.Second, "kept", ls...)
		require.LessOrEqual(t, float64(n), 10+100*(10.1+limit.TokenTTL.Seconds()), "by both")
		require.Greater(t, n, 900)
		// An attempt for the lost app may hold up the other. Both executors make one in two seconds.
		require.LessOrEqual(t, state.lostSyncs.Load()-before, int64(2*(10/2+3)))

		cancel()
		wait()
		state.lost.Store(nil)
		hammer(3*time.Second, "lost", ls[0])
		require.InDelta(t, 500, hammer(5*time.Second, "lost", ls[0]), 50, "recovered")
	})
}

// TestIdleAppWhileAnotherIsLost uses an app now and then. Each time nothing is known of its state, and
// its limits hold although that of the other app fails all the time.
func TestIdleAppWhileAnotherIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a")
		ls[0].Set("lost", limit.Settings{Rate: 100, Burst: 10})
		ls[0].Set("kept", limit.Settings{Rate: 1, Burst: 5})
		hammer(5*time.Second, "kept", ls[0])
		ctx, cancel := context.WithCancel(t.Context())
		wait := losing(ctx, state, "lost", ls[0])
		n, began := 0, time.Now()
		for time.Since(began) < time.Minute {
			n += hammer(time.Second, "kept", ls[0])
			time.Sleep(3 * time.Second)
		}
		// Three calls begin at the end of each second. Once, its state was unknown: five calls.
		require.LessOrEqual(t, float64(n), 5+5+time.Since(began).Seconds())
		require.Greater(t, n, 40)
		cancel()
		wait()
	})
}

// TestNewAppDuringAnOutage begins to use an app while the shared state is unavailable. Each executor
// takes its part, by the number of executors known of another app.
func TestNewAppDuringAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a", "b", "c", "d")
		for _, l := range ls {
			l.Set("known", limit.Settings{Rate: 100})
			l.Set("new", limit.Settings{Rate: 100, Burst: 4})
			l.Set("newer", limit.Settings{Concurrent: 8})
		}
		hammer(time.Second, "known", ls...)
		state.unavailable.Store(true)
		hammer(time.Second, "known", ls...)
		require.InDelta(t, 500, hammer(5*time.Second, "new", ls...), 50)
		for _, l := range ls {
			for range 2 {
				require.True(t, l.Start(limit.Ask{App: "newer"}).OK)
			}
			require.False(t, l.Start(limit.Ask{App: "newer"}).OK)
		}
	})
}
