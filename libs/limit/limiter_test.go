package limit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countingState is a shared state that counts calls and can be unavailable, also for one app only.
type countingState struct {
	limit.SharedState
	syncs       atomic.Int64
	unavailable atomic.Bool
	lost        atomic.Pointer[string]
	lostSyncs   atomic.Int64 // calls with a demand of the lost app
	last        atomic.Pointer[[]limit.Demand]
}

func (c *countingState) Sync(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	c.syncs.Add(1)
	c.last.Store(&demands)
	if c.unavailable.Load() {
		return nil, errors.New("unavailable")
	}
	lost := c.lost.Load()
	if lost == nil ||
		!slices.ContainsFunc(demands, func(w limit.Demand) bool { return w.App == *lost }) {
		return c.SharedState.Sync(ctx, executor, demands)
	}
	c.lostSyncs.Add(1)
	grants := make([]limit.Grant, len(demands))
	for i := range demands {
		one, err := c.SharedState.Sync(ctx, executor, demands[i:i+1])
		if demands[i].App == *lost {
			err = errors.New("its server is lost")
		}
		if err == nil {
			grants[i] = one[0]
		} else if grants[i].Err = err; len(demands) == 1 {
			return nil, err
		}
	}
	return grants, nil
}

// run starts limiters over one shared state, in a bubble, and stops them at its end.
func run(t *testing.T, names ...string) (*countingState, []*limit.Limiter) {
	t.Helper()
	state := &countingState{SharedState: memstate.New(nil)}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var out []*limit.Limiter
	for _, name := range names {
		l, err := limit.New(
			limit.Options{
				SharedState: state,
				Executor:    name,
				Logger:      zerolog.Nop(),
				Registerer:  prometheus.NewRegistry(),
				Share:       1000,
			},
		)
		require.NoError(t, err)
		out = append(out, l)
		all.Go(func() { _ = l.Run(ctx) })
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return state, out
}

// ready is a waiting fire. It is closed when the fire may start.
type ready chan struct{}

func (r ready) Ready() bool { close(r); return true }

// holdTime is how long executors let a fire wait in memory.
const holdTime = 5 * time.Second

// startRetrying asks until a call may start, as an executor does. It returns how often the call
// waited, and how often an executor would have deferred the fire.
func startRetrying(l *limit.Limiter, app string) (waits, deferrals int) {
	w := make(ready)
	for a := (limit.Ask{App: app, Waiter: w, Hold: holdTime}); ; a.Returned = true {
		d := l.Start(a)
		switch {
		case d.OK:
			return waits, deferrals
		case d.Waits:
			<-w
			return waits + 1, deferrals
		}
		waits, deferrals = waits+1, deferrals+1
		time.Sleep(time.Until(d.At))
	}
}

// TestLimitsGoOnWhenTheClockIsSetBack sets the store's clock back. Retry-after times follow it, and
// nothing else waits for it.
func TestLimitsGoOnWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	for _, unavailable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var behind time.Duration
			now := func() time.Time { return time.Now().Add(-behind) }
			state := &countingState{SharedState: memstate.New(nil)}
			state.unavailable.Store(unavailable)
			l, err := limit.New(limit.Options{
				SharedState: state, Executor: "a", Now: now, Logger: zerolog.Nop(), Share: 1000,
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { _ = l.Run(ctx) })
			defer func() { cancel(); all.Wait() }()
			l.Set("x", limit.Settings{Rate: 10, Burst: 1})
			calls := func(n int) time.Duration {
				began := time.Now()
				for i := 0; i < n; {
					w := make(ready)
					switch d := l.Start(limit.Ask{App: "x", Waiter: w, Hold: holdTime}); {
					case d.OK:
						l.Done("x")
						i++
					case d.Waits:
						<-w
						l.Done("x")
						i++
					default:
						time.Sleep(d.At.Sub(now()))
					}
				}
				return time.Since(began)
			}
			calls(20)
			behind = time.Hour
			require.Less(t, calls(20), 5*time.Second)
			d := l.Start(limit.Ask{App: "x"})
			require.False(t, d.OK)
			require.WithinDuration(t, now(), d.At, time.Second)
		})
	}
}

func TestAppsWithoutLimitsNeedNoSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a")
		for range 500 {
			require.True(t, ls[0].Start(limit.Ask{App: "x"}).OK)
		}
		time.Sleep(time.Minute)
		for range 500 {
			ls[0].Done("x")
		}
		require.Zero(t, state.syncs.Load())
	})
}

// TestFirstLimitsAreSharedAtOnce: an app without limits is not synchronized. When it gets limits,
// its running calls are announced with the next Sync.
func TestFirstLimitsAreSharedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a")
		require.True(t, ls[0].Start(limit.Ask{App: "x"}).OK)
		time.Sleep(10*time.Second + 200*time.Millisecond) // not just before a pass
		require.Zero(t, state.syncs.Load())
		ls[0].Set("x", limit.Settings{Concurrent: 5})
		time.Sleep(100 * time.Millisecond)
		require.NotZero(t, state.syncs.Load())
		ls[0].Done("x")
	})
}

func TestRateHoldsWithoutLongWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a", "b", "c")
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: 100, Burst: 10})
		}
		began := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		var starts []time.Duration
		waits, deferrals := 0, 0
		for i := range 900 { // simultaneously, on three executors: 9 s worth
			all.Go(func() {
				l := ls[i%3]
				n, deferred := startRetrying(l, "x")
				mu.Lock()
				starts = append(starts, time.Since(began))
				waits, deferrals = waits+n, deferrals+deferred
				mu.Unlock()
				l.Done("x")
			})
		}
		all.Wait()
		took := time.Since(began)
		require.Less(t, took, 13*time.Second, "9 s at the rate")
		require.Greater(t, took, 8500*time.Millisecond)
		for _, stretch := range []time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second} {
			for i, from := range starts {
				n := 0
				for _, s := range starts[i:] {
					if s <= from+stretch {
						n++
					}
				}
				require.LessOrEqual(t, float64(n), 10+100*(stretch+limit.TokenTTL).Seconds()+1)
			}
		}
		require.Less(t, deferrals, 1350, "most are deferred once")
		require.Less(t, waits, 6*900)
		require.Less(t, state.syncs.Load(), int64(100*3*took.Seconds()))
	})
}

func TestAppWithinItsRateIsNotDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a")
		ls[0].Set("x", limit.Settings{Rate: 1000, Concurrent: 100})
		var worst time.Duration
		began := time.Now()
		for range 2000 { // 200 per second
			at := time.Now()
			startRetrying(ls[0], "x")
			worst = max(worst, time.Since(at))
			ls[0].Done("x")
			time.Sleep(5*time.Millisecond - time.Since(at)%(5*time.Millisecond))
		}
		require.LessOrEqual(t, worst, 20*time.Millisecond)
		require.Less(
			t,
			float64(state.syncs.Load()),
			30*time.Since(began).Seconds(),
			"far fewer syncs than calls",
		)
	})
}

func TestConcurrencyHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("x", limit.Settings{Concurrent: 6})
		}
		var each [2]testenv.Concurrency
		var together testenv.Concurrency
		var done [2]atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for i := range 400 {
			all.Go(func() {
				e := i % 2
				startRetrying(ls[e], "x")
				each[e].Begin()
				together.Begin()
				time.Sleep(100 * time.Millisecond)
				together.End()
				each[e].End()
				done[e].Add(1)
				ls[e].Done("x")
			})
		}
		all.Wait()
		require.LessOrEqual(t, together.Most(), 6)
		require.GreaterOrEqual(t, each[0].Most(), 2, "both got slots")
		require.GreaterOrEqual(t, each[1].Most(), 2)
		require.Less(t, time.Since(began), 20*time.Second, "400 of 100 ms, six at once, take 6.7 s")
	})
}

// scriptedState is a shared state that grants slots as a test says, after a delay.
type scriptedState struct{ slots, slow atomic.Int64 }

func (d *scriptedState) Sync(
	_ context.Context,
	_ string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	grants := make([]limit.Grant, len(demands))
	for i := range grants {
		grants[i] = limit.Grant{Slots: int(d.slots.Load()), Executors: 2}
	}
	time.Sleep(time.Duration(d.slow.Load()))
	return grants, nil
}

// TestConcurrencyHoldsDuringASync: a decision of the shared state holds from its time on, not from
// its arrival. Another executor already has the slots that it took from us.
func TestConcurrencyHoldsDuringASync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := &scriptedState{}
		state.slots.Store(10)
		l, err := limit.New(limit.Options{SharedState: state, Executor: "e"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = l.Run(ctx) })
		l.Set("x", limit.Settings{Concurrent: 20})
		for range 5 {
			startRetrying(l, "x")
		}
		time.Sleep(20 * time.Millisecond)
		state.slots.Store(3)
		state.slow.Store(int64(100 * time.Millisecond))
		time.Sleep(60 * time.Millisecond) // the next Sync is running
		for range 10 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		l.Done("x")
		require.True(
			t,
			l.Start(limit.Ask{App: "x"}).OK,
			"it replaces an ended call, which the shared state counts",
		)
		time.Sleep(100 * time.Millisecond)
		for range 3 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
			l.Done("x")
		}
		require.True(t, l.Start(limit.Ask{App: "x"}).OK, "two of three slots are used")
		cancel()
		all.Wait()
	})
}

func TestOnlySlotRotatesAmongExecutors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a", "b")
		var calls testenv.Concurrency
		var done [2]atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for e, l := range ls {
			l.Set("x", limit.Settings{Concurrent: 1})
			for range 3 { // always one after the other
				all.Go(func() {
					for time.Since(began) < 40*time.Second {
						startRetrying(l, "x")
						calls.Begin()
						time.Sleep(50 * time.Millisecond)
						calls.End()
						done[e].Add(1)
						l.Done("x")
					}
				})
			}
		}
		all.Wait()
		require.Equal(t, 1, calls.Most())
		for e := range done {
			require.Greater(
				t,
				done[e].Load(),
				int64(100),
				"executor %d: 800 calls of 50 ms fit into 40 s",
				e,
			)
		}
		require.Greater(t, done[0].Load()+done[1].Load(), int64(400))
		t.Log(done[0].Load(), done[1].Load())
	})
}

func TestHangingEndpointIsLimitedToItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		started, deferrals := 0, 0
		for range 50_000 {
			d := l.Start(limit.Ask{App: "hangs"})
			if d.OK {
				started++
				continue
			}
			deferrals++
			require.True(t, d.At.After(time.Now()))
			require.LessOrEqual(t, time.Until(d.At), limit.MaxWait)
		}
		require.Equal(t, 1000, started)
		require.Equal(t, 49_000, deferrals)
		require.True(t, l.Start(limit.Ask{App: "other"}).OK)
		l.Done("other")
		for range started {
			l.Done("hangs")
		}
		require.True(t, l.Start(limit.Ask{App: "hangs", Returned: true}).OK)
		l.Done("hangs")
	})
}

func TestHangingAppsLeaveCapacityForOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hang, each int }{{1, 256}, {2, 171}, {3, 128}, {7, 64}} {
		l, err := limit.New(
			limit.Options{SharedState: memstate.New(nil), Executor: "e", Share: 256, Calls: 512},
		)
		require.NoError(t, err)
		started, sum := map[string]int{}, 0
		for range 1000 {
			for i := range c.hang {
				app := string(rune('a' + i))
				if l.Start(limit.Ask{App: app}).OK {
					started[app]++
					sum++
				}
			}
		}
		for app, n := range started {
			require.InDelta(t, c.each, n, 1, app)
		}
		require.LessOrEqual(t, sum, 512-64+7)
		for range 20 {
			require.True(t, l.Start(limit.Ask{App: "well"}).OK, "%d hang", c.hang)
		}
		for range 20 {
			l.Done("well")
		}
		for app, n := range started {
			for range n {
				l.Done(app)
			}
		}
		require.True(t, l.Start(limit.Ask{App: "a"}).OK)
	}
}

// TestNewFiresStartSoonAfterRecovery: fires deferred while an endpoint hung do not delay new fires
// after it recovered.
func TestNewFiresStartSoonAfterRecovery(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]limit.Settings{"no limits": {}, "calls at once": {Concurrent: 500}} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", settings)
			startRetrying(l, "x")
			running := 1
			// the endpoint hangs.
			for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
				if l.Start(
					limit.Ask{App: "x", Returned: running > 100 && time.Now().UnixMilli()%2 == 0},
				).OK {
					running++
				}
			}
			for range 5000 {
				d := l.Start(limit.Ask{App: "x", Returned: true})
				require.False(t, d.OK)
			}
			w := make(ready)
			require.True(
				t,
				l.Start(limit.Ask{App: "x", Returned: true, Waiter: w, Hold: holdTime}).Waits,
			)
			l.Done("x")
			<-w
			require.False(t, l.Start(limit.Ask{App: "x"}).OK, "waiting fires go first")
			for range running {
				l.Done("x")
			}
			for range 50 {
				began := time.Now()
				startRetrying(l, "x")
				// Limited apps wait for the next Sync.
				require.LessOrEqual(t, time.Since(began), 20*time.Millisecond, name)
				l.Done("x")
			}
		})
	}
}

func TestRetryAfterTimesAreSpread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask         limit.Ask
		first, last int // whole seconds of the capacity
	}{
		"new":      {limit.Ask{App: "x"}, 1, 18},
		"returned": {limit.Ask{App: "x", Returned: true, Hold: holdTime}, 3, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", limit.Settings{Rate: 100, Burst: 1})
			startRetrying(l, "x")
			time.Sleep(8 * time.Millisecond)
			for l.Start(limit.Ask{App: "x"}).OK {
			}
			time.Sleep(2 * time.Millisecond)
			perSecond := map[int]int{}
			began := time.Now()
			for range 2000 {
				c.ask.Waiter = make(ready)
				if d := l.Start(c.ask); !d.OK && !d.Waits {
					perSecond[int(d.At.Sub(began)/time.Second)]++
				}
			}
			for s := c.first; s <= c.last; s++ {
				require.InDelta(t, 100, perSecond[s], 10, "%s: second %d", name, s)
			}
		})
	}
}

// TestExpiredPermitsWaitInTheList checks that a fire whose permit expired waits for the next one, where
// others are deferred: it had its turn.
func TestExpiredPermitsWaitInTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		settings := limit.Settings{Rate: 10, Burst: 1}
		require.Equal(t, limit.TokenTTL, settings.PermitTTL())
		l.Set("x", settings)
		ask := limit.Ask{App: "x", Returned: true, Hold: holdTime}
		for waits := true; waits; {
			ask.Waiter = make(ready)
			waits = l.Start(ask).Waits
		}
		ask.Expired = true
		require.True(t, l.Start(ask).Waits)
		require.Equal(t, 2*time.Second, limit.Settings{Rate: 0.5, Burst: 1}.PermitTTL())
	})
}

// TestAppsWithoutLimitsAreForgotten checks that nothing is left of an app whose limits are removed, here
// and in the shared state, once its last call has ended.
func TestAppsWithoutLimitsAreForgotten(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]limit.Settings{
		"rate":       {Rate: 10},
		"concurrent": {Concurrent: 3},
	} {
		for _, during := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				state, ls := run(t, "a")
				l := ls[0]
				l.Set("x", settings)
				startRetrying(l, "x")
				if !during {
					l.Done("x")
				}
				l.Set("x", limit.Settings{})
				time.Sleep(2 * time.Second)
				if during {
					require.Equal(t, 1, l.Known(), name)
					l.Done("x")
				}
				time.Sleep(10 * time.Second)
				require.Zero(t, l.Known(), name)
				syncs := state.syncs.Load()
				time.Sleep(time.Minute)
				require.Equal(t, syncs, state.syncs.Load(), name)
				last := state.last.Load()
				require.Len(t, *last, 1)
				require.True(t, (*last)[0].IsEmpty(), "%s: the last Sync releases it", name)
			})
		}
	}
}

func TestNewSettingsApplyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		l.Set("x", limit.Settings{Rate: 1, Burst: 1})
		startRetrying(l, "x")
		time.Sleep(10 * time.Millisecond)
		for range 200 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		l.Set("x", limit.Settings{Rate: 1000})
		began := time.Now()
		for range 100 {
			startRetrying(l, "x")
		}
		require.Less(t, time.Since(began), time.Second)
		l.Set("x", limit.Settings{Concurrent: 1})
		for range 101 {
			l.Done("x")
		}
		startRetrying(l, "x")
		require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		l.Set("x", limit.Settings{})
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		l.Done("x")
		l.Done("x")
	})
}

func TestSharedStateUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: 100, Burst: 10, Concurrent: 40})
			startRetrying(l, "x")
			l.Done("x")
			startRetrying(l, "x")
			l.Done("x")
		}
		time.Sleep(500 * time.Millisecond)
		state.unavailable.Store(true)
		count := func(d time.Duration) int {
			n := 0
			for began := time.Now(); time.Since(began) < d; time.Sleep(time.Millisecond) {
				if ls[0].Start(limit.Ask{App: "x"}).OK {
					n++
					ls[0].Done("x")
				}
			}
			return n
		}
		count(time.Second) // the change is noticed
		require.InDelta(t, 250, count(5*time.Second), 25, "half of the rate for each of two")
		state.unavailable.Store(false)
		count(time.Second)
		require.InDelta(t, 500, count(5*time.Second), 100, "all of it, for the other is idle")
	})
}

// TestUnavailableFromTheStart checks that an executor which never reached the shared state uses the
// limits as if it were alone.
func TestUnavailableFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a")
		state.unavailable.Store(true)
		ls[0].Set("x", limit.Settings{Rate: 10})
		began := time.Now()
		for range 50 {
			startRetrying(ls[0], "x")
			ls[0].Done("x")
		}
		require.InDelta(t, 5, time.Since(began).Seconds(), 0.5)
	})
}

// TestAnOutageBringsNoBurst checks that an executor which uses its rate does not get the burst again
// each time the shared state is unavailable for a moment.
func TestAnOutageBringsNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: 100, Burst: 100})
		}
		count := func(d time.Duration) int {
			var all sync.WaitGroup
			var n atomic.Int64
			began := time.Now()
			for _, l := range ls {
				all.Go(func() {
					for time.Since(began) < d {
						startRetrying(l, "x")
						n.Add(1)
						l.Done("x")
					}
				})
			}
			all.Wait()
			return int(n.Load())
		}
		count(5 * time.Second) // the burst is used up
		n := 0
		for range 5 {
			state.unavailable.Store(true)
			n += count(500 * time.Millisecond)
			state.unavailable.Store(false)
			n += count(1500 * time.Millisecond)
		}
		// 10 s of the rate, and once more what the shared bucket fills during the outages of up to
		// 750 ms, and tokens in advance. In 150 runs it was 1,634 at most. With the burst again in
		// each outage it was 1,884.
		require.LessOrEqual(t, n, 1750)
		require.Greater(t, n, 700)
	})
}

func TestStoppedExecutorReleasesItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state, ls := run(t, "stays")
		ctx, cancel := context.WithCancel(t.Context())
		stops, err := limit.New(limit.Options{SharedState: state, Executor: "stops"})
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() { _ = stops.Run(ctx) })
		settings := limit.Settings{Concurrent: 1}
		stops.Set("x", settings)
		ls[0].Set("x", settings)
		startRetrying(stops, "x")
		stops.Done("x")
		startRetrying(stops, "x")
		require.False(t, ls[0].Start(limit.Ask{App: "x"}).OK)
		cancel()
		all.Wait()
		began := time.Now()
		startRetrying(ls[0], "x")
		ls[0].Done("x")
		require.Less(t, time.Since(began), 6*time.Second)
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := limit.New(limit.Options{})
	require.ErrorContains(t, err, "SharedState")
}

func BenchmarkStart(b *testing.B) {
	l, err := limit.New(limit.Options{SharedState: memstate.New(nil), Executor: "e", Share: 1000})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if l.Start(limit.Ask{App: "x"}).OK {
			l.Done("x")
		}
	}
}

// TestUnusedSlotsGoToOthers: an executor that once had many calls, and makes one at a time now,
// leaves the other slots to an executor that has more to do.
func TestUnusedSlotsGoToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("x", limit.Settings{Concurrent: 10})
		}
		call := func(l *limit.Limiter, took time.Duration) {
			startRetrying(l, "x")
			time.Sleep(took)
			l.Done("x")
		}
		var burst sync.WaitGroup
		for range 10 {
			burst.Go(func() { call(ls[0], 3*time.Second) })
		}
		burst.Wait()

		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() {
			for time.Since(began) < 30*time.Second {
				call(ls[0], 20*time.Millisecond)
				time.Sleep(180 * time.Millisecond)
			}
		})
		var calls testenv.Concurrency
		for range 30 {
			all.Go(func() {
				for time.Since(began) < 20*time.Second {
					startRetrying(ls[1], "x")
					calls.Begin()
					time.Sleep(500 * time.Millisecond)
					calls.End()
					ls[1].Done("x")
				}
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, calls.Most(), 8)
	})
}
