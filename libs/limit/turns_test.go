package limit_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// TestALowRateIsUsed: who comes back in turn finds his permit, or waits for the very next, however few there are.
func TestALowRateIsUsed(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 1, 2, 5} {
		requireUsed(t, rate, 1.1, "a")
		requireUsed(t, rate, 1.6, "a", "b") // each takes half of it for its own while the other may have nothing left
	}
}

func requireUsed(t *testing.T, rate, most float64, executors ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, executors...)
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: rate})
		}
		took := herd(ls, make([]limit.Priority, 40))[39].Seconds()
		require.Less(t, took, most*40/rate, "at %v/s by %d", rate, len(ls))
		require.Greater(t, took, 0.9*38/rate-1/rate, "at %v/s by %d", rate, len(ls))
	})
}

// herd lets fires of an app that are due at once insist, each somewhat late as it takes to come back from the store, and returns when they started: those of
// one priority in their order, one priority after the other.
func herd(ls []*limit.Limiter, of []limit.Priority) (starts []time.Duration) {
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	by := map[limit.Priority][]time.Duration{}
	for i, p := range of {
		all.Go(func() {
			l, late := ls[i%len(ls)], time.Duration(7*i%50)*time.Millisecond
			for a := (limit.Ask{App: "x", Priority: p}); ; a.Returned = true {
				d := l.Start(a)
				if d.OK {
					break
				}
				time.Sleep(time.Until(d.At) + late)
			}
			mu.Lock()
			by[p] = append(by[p], time.Since(began))
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			l.Done("x")
		})
	}
	all.Wait()
	for _, p := range []limit.Priority{limit.High, limit.Normal, limit.Low} {
		starts = append(starts, by[p]...)
	}
	return starts
}

// TestWhoGoesFirst: of the fires of an app that wait for its limits, those of a higher priority start before, and low still moves.
func TestWhoGoesFirst(t *testing.T) {
	t.Parallel()
	for _, set := range []limit.Settings{{Rate: 5}, {Rate: 100, Burst: 1}, {Concurrent: 2}} {
		for _, executors := range [][]string{{"a"}, {"a", "b"}} {
			synctest.Test(t, func(t *testing.T) {
				_, ls := run(t, executors...)
				for _, l := range ls {
					l.Set("x", set)
				}
				of := make([]limit.Priority, 120)
				for i := range of {
					if of[i] = limit.Low; i > 80 {
						of[i] = limit.High
					}
				}
				starts := herd(ls, of)
				high, low, all := starts[:39], starts[39:], slices.Max(starts)
				mean := func(of []time.Duration) (m float64) {
					for _, s := range of {
						m += s.Seconds() / float64(len(of))
					}
					return m
				}
				t.Logf("%+v by %d: high after %.3f s, low after %.3f s, all after %v", set, len(ls), mean(high), mean(low), all)
				require.Less(t, mean(high), 0.8*mean(low), "%+v by %d", set, len(ls))
				require.Less(t, low[3], high[38], "low moves: %+v by %d", set, len(ls))
				if set.Rate > 0 {
					require.Less(t, all.Seconds(), 1.5*120/set.Rate+0.5, "nothing is left unused: %+v by %d", set, len(ls))
				}
			})
		}
	}
}

// Instants that were given in trouble lie far ahead of calls that are free by now: nobody stands behind them, whatever his priority.
func TestALowPriorityStartsWhenTroubleIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		for range 1000 { // an endpoint that hangs takes its share
			require.True(t, l.Start(limit.Ask{App: "x", Priority: limit.Normal}).OK)
		}
		time.Sleep(20 * time.Second)
		for range 500 {
			require.False(t, l.Start(limit.Ask{App: "x", Priority: limit.Normal}).OK)
		}
		for range 1000 {
			l.Done("x")
		}
		time.Sleep(2 * time.Second)
		for range 100 {
			require.True(t, l.Start(limit.Ask{App: "x", Priority: limit.Low}).OK)
		}
	})
}
