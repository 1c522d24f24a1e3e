package limit_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
)

// hang starts 1,000 calls of an app, and defers fires of it after a minute in which none ended.
func hang(t *testing.T, l *limit.Limiter, fires int) {
	t.Helper()
	for range 1000 {
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
	}
	time.Sleep(time.Minute)
	for range fires {
		require.False(t, l.Start(limit.Ask{App: "x"}).OK)
	}
}

// spare returns how many fires of an app to ask for.
func spare(t *testing.T, l *limit.Limiter) (calls int) {
	t.Helper()
	r, _ := l.Revise()
	require.LessOrEqual(t, len(r.Spares), 1)
	for _, s := range r.Spares {
		require.Equal(t, "x", s.App)
		require.Positive(t, s.Calls)
		calls = s.Calls
	}
	return calls
}

// found reports the fires of a Spare that are there, which ask then. It returns how many started.
func found(l *limit.Limiter, wanted, there int) (started int) {
	for range there {
		if l.Start(limit.Ask{App: "x", Returned: true, Readmitted: true}).OK {
			started++
		}
	}
	l.Found(limit.Spare{App: "x", Calls: wanted}, there)
	return started
}

// askAgain has all fires of a Spare ask that were found, as executors do. Calls end at once. It
// counts those that start, and returns how many were deferred again.
func askAgain(l *limit.Limiter, p limit.Priority, fires int, started *atomic.Int64) (refused int) {
	for range fires {
		w := make(ready)
		d := l.Start(limit.Ask{
			App: "x", Priority: p, Returned: true, Readmitted: true, Waiter: w, Hold: holdTime,
		})
		switch {
		case d.Waits:
			go func() { <-w; started.Add(1); l.Done("x") }()
		case d.OK:
			started.Add(1)
			l.Done("x")
		default:
			refused++
		}
	}
	if fires > 0 {
		l.Found(limit.Spare{App: "x", Calls: fires}, fires)
	}
	return refused
}

// TestSpareCallsAreTold checks that the executor is told when calls of an app end sooner than they
// did when other fires of it got their retry-after times, and not for ever.
func TestSpareCallsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		for range 1000 {
			require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		require.Empty(t, l.Waiting())
		_, more := l.Revise()
		require.False(t, more, "no fire waits")
		time.Sleep(time.Minute) // the calls hang
		for range 100 {
			require.False(t, l.Start(limit.Ask{App: "x"}).At.IsZero())
		}
		require.Len(t, l.Waiting(), 1)
		w := make(ready)
		require.True(t, l.Start(limit.Ask{App: "x", Waiter: w, Hold: time.Hour}).Waits)
		require.Zero(t, spare(t, l), "no call has ended")
		l.Done("x")
		<-w
		n := spare(t, l)
		require.LessOrEqual(t, n, 2, "a fire of the wait list has taken the call")
		found(l, n, 0)
		time.Sleep(time.Second)
		for range 30 {
			l.Done("x")
		}
		n = spare(t, l)
		require.GreaterOrEqual(t, n, 30)
		require.LessOrEqual(t, n, 100)
		require.Zero(t, spare(t, l), "it has not answered yet")
		require.Equal(t, 30, found(l, n, n))
		for range 1000 {
			l.Done("x")
		}
		for range 5 {
			n = spare(t, l)
			require.Equal(t, n, found(l, n, n))
		}
		_, more = l.Revise()
		require.False(t, more, "the executor has asked for all fires")
	})
}

// TestSpareCallsAreFew checks that the executor is told of no more calls than may start soon: it
// would defer the other fires again.
func TestSpareCallsAreFew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit.Settings
		most int
	}{
		"concurrent": {limit.Settings{Concurrent: 2}, 2},
		"rate":       {limit.Settings{Rate: 10, Burst: 1}, 2},
		"slow":       {limit.Settings{Rate: 1, Burst: 1}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", c.Settings)
			asked := 0 // fires that asked again
			for range 50 {
				startRetrying(l, "x")
				for range 20 {
					l.Start(limit.Ask{App: "x"})
				}
				time.Sleep(time.Second)
				l.Done("x")
				n := spare(t, l)
				require.LessOrEqual(t, n, c.most, name)
				found(l, n, 0)
				asked += n
			}
			require.LessOrEqual(t, asked, 50*c.most, name)
		})
	}
}

// TestSpareCallsOfARecovery checks that calls which end one after the other, before a fire could ask,
// make the executor ask for no more fires than can start soon.
func TestSpareCallsOfARecovery(t *testing.T) {
	t.Parallel()
	for _, share := range []int{50, 100, 500} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", limit.Settings{Concurrent: share})
			for range share {
				startRetrying(l, "x")
			}
			time.Sleep(10 * time.Second) // the calls hang
			for range 50_000 {
				require.False(t, l.Start(limit.Ask{App: "x"}).OK)
			}
			told := 0
			for range share {
				l.Done("x")
				time.Sleep(100 * time.Millisecond / time.Duration(share))
				n := spare(t, l)
				l.Found(limit.Spare{App: "x", Calls: n}, n) // they have not asked yet
				told += n
			}
			require.GreaterOrEqual(t, told, share)
			require.Less(t, told, 5*share)
		})
	}
}

// TestSpareCallsOfARate checks that deferred fires use a rate to the full, however many calls end at
// once, and however short they are.
func TestSpareCallsOfARate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 10, 300} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", limit.Settings{Rate: rate, Burst: 1, Concurrent: 5})
			for range 5 {
				startRetrying(l, "x")
			}
			time.Sleep(time.Minute)
			for range 1000 {
				require.False(t, l.Start(limit.Ask{App: "x"}).OK)
			}
			for range 5 {
				l.Done("x")
			}
			const seconds = 20
			var started atomic.Int64
			for range seconds * time.Second / limit.ReviseEvery {
				time.Sleep(limit.ReviseEvery)
				n := spare(t, l)
				askAgain(l, limit.Normal, n, &started)
				if started.Load() == 1000 {
					break
				}
			}
			least := min(1000, int64(0.8*seconds*rate))
			require.GreaterOrEqual(t, started.Load(), least, "%v/s", rate)
			for _, w := range l.Close() {
				w.Ready()
			}
			synctest.Wait()
		})
	}
}

// TestSpareCallsNotFound checks that fires which were not found are looked for more and more rarely,
// and that those that did not ask in time do not count for ever.
func TestSpareCallsNotFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		hang(t, l, 2000)
		for range 1000 {
			l.Done("x")
		}
		looks := 0
		for range 30 * time.Second / limit.ReviseEvery {
			time.Sleep(limit.ReviseEvery)
			if n := spare(t, l); n > 0 {
				looks++
				found(l, n, 0)
			}
		}
		require.Greater(t, looks, 5)
		require.Less(t, looks, 15)
		n := 0
		for n == 0 {
			time.Sleep(limit.ReviseEvery)
			n = spare(t, l)
		}
		require.Equal(t, 1000, n)
		for range 20 { // it takes long to find them
			time.Sleep(limit.ReviseEvery)
			require.Zero(t, spare(t, l))
		}
		l.Found(limit.Spare{App: "x", Calls: n}, n)
		time.Sleep(limit.ReviseEvery)
		require.Zero(t, spare(t, l), "they have not asked yet")
		time.Sleep(time.Second)
		require.Greater(t, spare(t, l), 300, "those have been lost on the way")
	})
}

// TestSpareCallsAfterAnIdleTime checks that fires which did not come back are forgotten: others
// called them, or they were deleted.
func TestSpareCallsAfterAnIdleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		l.Set("x", limit.Settings{Concurrent: 1})
		startRetrying(l, "x")
		for range 20 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		time.Sleep(15 * time.Minute)
		l.Done("x")
		require.Zero(t, spare(t, l))
		_, more := l.Revise()
		require.False(t, more)
	})
}

// TestSpareCallsUnderOtherLimits checks that fires which are deferred are still known after limits
// were set that allow less, or more: the executor that advances them may not find all.
func TestSpareCallsUnderOtherLimits(t *testing.T) {
	t.Parallel()
	for _, s := range []limit.Settings{{Concurrent: 10}, {}} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", limit.Settings{Concurrent: 1000})
			for range 1000 {
				startRetrying(l, "x")
			}
			time.Sleep(time.Minute)
			for range 100 {
				require.False(t, l.Start(limit.Ask{App: "x"}).OK)
			}
			n := spare(t, l)
			for n > 0 {
				found(l, n, 0)
				n = spare(t, l)
			}
			l.Set("x", s)
			for range 995 {
				l.Done("x")
			}
			require.Positive(t, spare(t, l))
		})
	}
}

// TestSpareCallsOfPriorities checks that each fire which is found counts for its own priority, and that
// one of low priority uses a low rate, whatever else is deferred.
func TestSpareCallsOfPriorities(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 2, 50} {
		synctest.Test(t, func(t *testing.T) {
			_, ls := run(t, "a")
			l := ls[0]
			l.Set("x", limit.Settings{Rate: rate, Burst: 1, Concurrent: 5})
			for range 5 {
				startRetrying(l, "x")
			}
			time.Sleep(time.Minute)
			const fires = 300
			for range fires {
				require.False(t, l.Start(limit.Ask{App: "x", Priority: limit.High}).OK)
				require.False(t, l.Start(limit.Ask{App: "x", Priority: limit.Low}).OK)
			}
			for range 5 {
				l.Done("x")
			}
			const seconds = 20
			var started atomic.Int64
			refused := 0
			for range seconds * time.Second / limit.ReviseEvery {
				time.Sleep(limit.ReviseEvery)
				n := spare(t, l)
				refused += askAgain(l, limit.Low, n, &started)
				if started.Load() > fires/2 {
					break
				}
			}
			least := min(fires/2, int64(0.8*seconds*rate))
			require.GreaterOrEqual(t, started.Load(), least, "%v/s", rate)
			require.Less(t, refused, 5)
			l.Revise()
			high := l.Start(limit.Ask{App: "x", Priority: limit.High}).At
			require.Greater(t, time.Until(high).Seconds(), min(200, 0.8*fires/rate), "%v/s", rate)
			for _, w := range l.Close() {
				w.Ready()
			}
			synctest.Wait()
		})
	}
}

// TestSpareCallsAfterTheSlotsOfOthers checks that an executor which had too few slots asks again once
// nobody uses them.
func TestSpareCallsAfterTheSlotsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a", "b")
		for _, l := range ls {
			l.Set("x", limit.Settings{Concurrent: 4})
		}
		for range 2 {
			for _, l := range ls {
				startRetrying(l, "x")
			}
		}
		for range 300 {
			require.False(t, ls[1].Start(limit.Ask{App: "x"}).OK)
		}
		time.Sleep(time.Minute)
		for range 300 {
			require.False(t, ls[1].Start(limit.Ask{App: "x"}).OK)
		}
		for range 2 {
			for _, l := range ls {
				l.Done("x")
			}
		}
		looks := 0
		for range 30 * time.Second / limit.ReviseEvery {
			time.Sleep(limit.ReviseEvery)
			if n := spare(t, ls[1]); n > 0 {
				ls[1].Found(limit.Spare{App: "x", Calls: n}, 0)
				looks++
			}
		}
		require.Greater(t, looks, 7)
	})
}

// TestSpareCallsOfManyApps checks that apps which recover together are not promised the same calls, and
// that one for which nobody had time to look is told again at once.
func TestSpareCallsOfManyApps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.New(limit.Options{
			SharedState: memstate.New(nil), Executor: "a", Share: 50, Calls: 100,
			Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		const apps = 40
		name := func(i int) string { return string(rune('A' + i)) }
		running := 0
		for i := range 2 {
			for l.Start(limit.Ask{App: name(i)}).OK {
				running++
			}
		}
		require.Equal(t, 75, running)
		for i := range apps {
			for range 100 {
				l.Start(limit.Ask{App: name(i)})
			}
		}
		for i := range apps {
			for range 100 {
				l.Done(name(i))
			}
		}
		time.Sleep(2 * time.Second)
		r, _ := l.Revise()
		calls := 0
		for _, s := range r.Spares {
			calls += s.Calls
			l.Found(s, limit.NotLooked)
		}
		require.Less(t, calls, 100+apps)
		again, _ := l.Revise()
		require.Len(t, again.Spares, len(r.Spares))
	})
}

// TestSpareCallsOfAClockSetBack checks that a clock which is corrected changes nothing.
func TestSpareCallsOfAClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := time.Duration(0)
		l, err := limit.New(limit.Options{
			SharedState: memstate.New(nil), Executor: "a", Share: 10,
			Now:        func() time.Time { return time.Now().Add(-behind) },
			Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		for range 10 {
			require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		for range 100 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
			behind += 2 * time.Second
		}
		l.Done("x")
		n := spare(t, l)
		require.Positive(t, n, "all are known still")
		l.Found(limit.Spare{App: "x", Calls: n}, 0)
		behind += time.Hour
		for range 100 {
			l.Start(limit.Ask{App: "x"})
		}
		l.Done("x")
		time.Sleep(100 * time.Millisecond)
		require.Positive(t, spare(t, l))
	})
}

// TestLongWaitsLeaveTheWaitList checks that fires whose turn comes much later than when they began to
// wait are given back, the last of the lowest priority first.
func TestLongWaitsLeaveTheWaitList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		l.Set("x", limit.Settings{Rate: 1000, Burst: 1})
		startRetrying(l, "x")
		waits := 0
		by := make(map[limit.Waiter]limit.Priority)
		for i := range 3000 {
			w, p := make(ready), limit.Priority(i%int(limit.Priorities))
			a := limit.Ask{App: "x", Waiter: w, Hold: holdTime, Priority: p}
			if l.Start(a).Waits {
				waits++
				by[w] = p
			}
		}
		require.Equal(t, 3000, waits)
		short := limit.Ask{
			App:      "x",
			Waiter:   make(ready),
			Hold:     50 * time.Millisecond,
			Returned: true,
		}
		require.True(t, l.Start(short).Waits)
		r, _ := l.Revise()
		require.Empty(t, r.Deferrals, "the others may wait longer than the last")
		l.Set("x", limit.Settings{Rate: 2, Burst: 1})
		time.Sleep(time.Second)
		r, more := l.Revise()
		require.True(t, more)
		require.Greater(t, len(r.Deferrals), 2900)
		left := make(map[limit.Priority]int)
		for _, p := range by {
			left[p]++
		}
		for _, d := range r.Deferrals {
			require.Greater(t, time.Until(d.At), holdTime)
			require.LessOrEqual(t, time.Until(d.At), limit.MaxWait)
			left[by[d.Waiter]]--
		}
		require.Greater(t, left[limit.High], left[limit.Normal])
		require.Greater(t, left[limit.Normal], left[limit.Low])
		require.Less(t, len(l.Close()), 100)
	})
}
