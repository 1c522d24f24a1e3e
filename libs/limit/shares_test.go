package limit_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// TestLowRateIsUsedFully: fires that return at their retry-after time find a token or wait for the
// next, however low the rate.
func TestLowRateIsUsedFully(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 1, 2, 5} {
		requireUsed(t, rate, 1.1, "a")
		// Each executor reserves half of it, while the other may have no fires left.
		requireUsed(t, rate, 1.6, "a", "b")
	}
}

// TestBusySlotsTakeNoTokens checks that executors whose call slots are all in use leave the tokens of
// a low rate to others, whatever priorities wait where.
func TestBusySlotsTakeNoTokens(t *testing.T) {
	t.Parallel()
	for _, of := range [][2]limit.Priority{{limit.Normal, limit.Normal}, {limit.High, limit.Low}} {
		synctest.Test(t, func(t *testing.T) {
			const rate, stretch = 0.2, 10 * time.Minute
			_, ls := run(t, "a", "b")
			var starts atomic.Int64
			var all sync.WaitGroup
			began := time.Now()
			for e, l := range ls {
				l.Set("x", limit.Settings{Rate: rate, Burst: 1, Concurrent: 2})
				for range 4 {
					all.Go(func() {
						for time.Since(began) < stretch {
							w := make(ready)
							a := limit.Ask{App: "x", Priority: of[e], Waiter: w, Hold: stretch}
							if l.Start(a).Waits {
								<-w
							}
							if time.Since(began) < stretch {
								starts.Add(1)
							}
							time.Sleep(8 * time.Second) // two at once are more than the rate
							l.Done("x")
						}
					})
				}
			}
			all.Wait()
			t.Log(starts.Load(), "starts of", of)
			require.Greater(t, float64(starts.Load()), 0.9*rate*stretch.Seconds(), of)
		})
	}
}

func requireUsed(t *testing.T, rate, most float64, executors ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, executors...)
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: rate})
		}
		took := runBurst(ls, make([]limit.Priority, 40))[39].Seconds()
		require.Less(t, took, most*40/rate, "at %v/s by %d", rate, len(ls))
		require.Greater(t, took, 0.9*38/rate-1/rate, "at %v/s by %d", rate, len(ls))
	})
}

// TestABurstIsNotDelayedByItsBeginning: the first fires of a burst tell how fast the others can
// start, however short the time since the first.
func TestABurstIsNotDelayedByItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const fires = 16_000 // within 100 ms; 1,000 calls of 10 ms run at once
		_, ls := run(t, "a")
		began := time.Now()
		var last atomic.Int64
		var all sync.WaitGroup
		for i := range fires {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond / fires)
				startWithin(ls[0], 100*time.Millisecond)
				last.Store(int64(time.Since(began)))
				time.Sleep(10 * time.Millisecond)
				ls[0].Done("x")
			})
		}
		all.Wait()
		require.Less(t, time.Duration(last.Load()), time.Second/2) // 0.16 s if no call slot is free
	})
}

// startWithin asks until a call of the app x may start, with a Hold.
func startWithin(l *limit.Limiter, hold time.Duration) {
	for a := (limit.Ask{App: "x", Waiter: make(ready), Hold: hold}); ; a.Returned = true {
		d := l.Start(a)
		switch {
		case d.OK:
			return
		case d.Waits:
			<-a.Waiter.(ready) //nolint:forcetypeassert // as above
			return
		}
		time.Sleep(time.Until(d.At))
	}
}

// runBurst runs fires of an app that are due at once. Each retries, a little late, as after a
// return from the store. It returns when each started; within a priority fires start in order.
func runBurst(ls []*limit.Limiter, of []limit.Priority) (starts []time.Duration) {
	h := &burst{began: time.Now(), by: map[limit.Priority][]time.Duration{}}
	h.run(ls, of)
	for _, p := range []limit.Priority{limit.High, limit.Normal, limit.Low} {
		starts = append(starts, h.by[p]...)
	}
	return starts
}

// burst is a set of fires of one app that are due at once, and a record of how they started.
type burst struct {
	began time.Time
	hold  time.Duration // 0 means the default of executors

	mu    sync.Mutex
	by    map[limit.Priority][]time.Duration
	left  [3]int
	order []limit.Priority // priorities of all starts
	at    []time.Duration  // time of each start
	due   [][3]bool        // priorities that were due at each start
	here  int              // fires waiting in memory
	most  int
}

// fire is one fire of a burst.
type fire struct {
	*burst

	p     limit.Priority
	ready chan struct{}
}

// Ready records the start.
func (f *fire) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.here--
	f.started(f.p)
	close(f.ready)
	return true
}

func (b *burst) started(p limit.Priority) {
	now := time.Since(b.began)
	b.by[p] = append(b.by[p], now)
	b.order, b.at = append(b.order, p), append(b.at, now)
	b.due = append(b.due, [3]bool{b.left[0] > 0, b.left[1] > 0, b.left[2] > 0})
	b.left[p]--
}

func (b *burst) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.here++
	b.most = max(b.most, b.here)
}

func (b *burst) run(ls []*limit.Limiter, of []limit.Priority) {
	var all sync.WaitGroup
	for _, p := range of {
		b.left[p]++
	}
	for i, p := range of {
		all.Go(func() {
			l, late := ls[i%len(ls)], time.Duration(7*i%50)*time.Millisecond
			f := &fire{burst: b, p: p, ready: make(chan struct{})}
			for a := (limit.Ask{App: "x", Priority: p, Waiter: f, Hold: cmp.Or(b.hold, holdTime)}); ; a.Returned = true {
				d := l.Start(a)
				if d.OK {
					f.Ready()
				}
				if d.OK || d.Waits {
					b.wait()
					<-f.ready
					break
				}
				time.Sleep(time.Until(d.At) + late)
				l = ls[rand.IntN(len(ls))] // from the store, to any executor
			}
			time.Sleep(20 * time.Millisecond)
			l.Done("x")
		})
	}
	all.Wait()
}

// TestSharesHoldOfABurst: in a burst of all priorities each has its share of any 42 consecutive
// starts while it has due fires. That holds for fires in memory and in the store, for several
// executors, and for any order of arrival.
func TestSharesHoldOfABurst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate float64
		hold time.Duration
		size int
	}{{20, holdTime, 1}, {25, holdTime, 1}, {200, holdTime, 1}, {100, holdTime, 20}} {
		for _, executors := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
			for _, order := range []string{"mixed", "low first", "high first"} {
				requireShares(t, c.rate, c.hold, c.size, order, executors)
			}
		}
	}
}

func requireShares(
	t *testing.T,
	rate float64,
	hold time.Duration,
	size int,
	order string,
	executors []string,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, executors...)
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: rate})
		}
		of := slices.Concat(
			slices.Repeat([]limit.Priority{limit.High}, 300*size),
			slices.Repeat([]limit.Priority{limit.Normal}, 100*size),
			slices.Repeat([]limit.Priority{limit.Low}, 40*size),
		)
		switch order {
		case "mixed":
			rand.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		case "low first":
			slices.Reverse(of)
		}
		b := &burst{began: time.Now(), hold: hold, by: map[limit.Priority][]time.Duration{}}
		b.run(ls, of)
		took, n := time.Since(b.began).Seconds(), float64(len(of))
		t.Logf(
			"%v/s, %s by %d, held %s: %.2f s, at most %d wait here",
			rate,
			order,
			len(ls),
			hold,
			took,
			b.most,
		)
		require.Len(t, b.order, len(of))
		sharesHold(t, b.order, b.due, b.at)
		require.Less(t, took, 1.05*(n-rate)/rate+0.5, "the rate is used")
		require.Greater(t, took, (n-rate-1)/rate-limit.TokenTTL.Seconds(), "and holds")
		require.LessOrEqual(
			t,
			b.most,
			len(ls)*(int(3*hold.Seconds()*rate+rate)+10),
			"the rest waits in the store",
		)
	})
}

// TestHigherPrioritiesGoFirst: among the waiting fires of an app, higher priorities start first,
// and low still progresses.
func TestHigherPrioritiesGoFirst(t *testing.T) {
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
				starts := runBurst(ls, of)
				high, low, all := starts[:39], starts[39:], slices.Max(starts)
				mean := func(of []time.Duration) (m float64) {
					for _, s := range of {
						m += s.Seconds() / float64(len(of))
					}
					return m
				}
				t.Logf(
					"%+v by %d: high after %.3f s, low after %.3f s, all after %v",
					set,
					len(ls),
					mean(high),
					mean(low),
					all,
				)
				require.Less(t, mean(high), 0.8*mean(low), "%+v by %d", set, len(ls))
				require.Less(t, low[1], high[38], "low moves: %+v by %d", set, len(ls))
				if set.Rate > 0 {
					require.Less(
						t,
						all.Seconds(),
						1.5*120/set.Rate+0.5,
						"nothing is left unused: %+v by %d",
						set,
						len(ls),
					)
				}
			})
		}
	}
}

// TestLowPriorityStartsAfterRecovery: retry-after times given during an outage may lie far after
// free capacity. They delay nobody, whatever the priority.
func TestLowPriorityStartsAfterRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		for range 1000 { // a hanging endpoint uses its share
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
