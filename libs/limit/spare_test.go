package limit_test

import (
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
		l.Done("x")
		require.Empty(t, l.Spare(), "no fire has a retry-after time")
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		time.Sleep(time.Minute) // the calls hang
		for range 100 {
			require.False(t, l.Start(limit.Ask{App: "x"}).At.IsZero())
		}
		w := make(ready)
		require.True(t, l.Start(limit.Ask{App: "x", Waiter: w, Hold: time.Hour}).Waits)
		l.Done("x")
		<-w
		require.Empty(t, l.Spare(), "a fire of the wait list has taken the call")
		for range 1000 {
			l.Done("x")
		}
		told := 0
		for len(l.Spare()) > 0 {
			spare := <-l.Spare()
			require.Equal(t, "x", spare.App)
			require.Positive(t, spare.Calls)
			told += spare.Calls
		}
		require.GreaterOrEqual(t, told, 100)
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		l.Done("x")
		require.Empty(t, l.Spare(), "the executor was told of all fires")
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
				for len(l.Spare()) > 0 {
					spare := <-l.Spare()
					require.LessOrEqual(t, spare.Calls, c.most, name)
					asked += spare.Calls
				}
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
				for len(l.Spare()) > 0 {
					told += (<-l.Spare()).Calls
				}
			}
			require.GreaterOrEqual(t, told, share)
			require.Less(t, told, 10*share)
		})
	}
}

// TestSpareCallsNotFound checks that fires which were not found are looked for once more, and that
// those that did not ask in time do not count for ever.
func TestSpareCallsNotFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		l.Set("x", limit.Settings{Concurrent: 10})
		for range 10 {
			startRetrying(l, "x")
		}
		time.Sleep(10 * time.Second)
		for range 100 {
			require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		}
		for range 10 {
			l.Done("x")
		}
		told := 0
		for len(l.Spare()) > 0 {
			told += (<-l.Spare()).Calls
		}
		l.Unfound("x", told)
		require.Len(t, l.Spare(), 1)
		<-l.Spare()
		startRetrying(l, "x")
		l.Done("x")
		for len(l.Spare()) > 0 {
			require.LessOrEqual(t, (<-l.Spare()).Calls, 2, "the others have not asked yet")
		}
		time.Sleep(2 * time.Second)
		startRetrying(l, "x")
		l.Done("x")
		require.Len(t, l.Spare(), 1)
	})
}

// TestSpareCallsForFewFires checks that more calls than there are fires end the search: those not found
// do not count as fires.
func TestSpareCallsForFewFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		hang(t, l, 500)
		for range 900 {
			l.Done("x")
		}
		searches := 0
		for found := 500; len(l.Spare()) > 0; searches++ {
			spare := <-l.Spare()
			n := min(found, spare.Calls)
			found -= n
			for range n {
				require.True(t, l.Start(limit.Ask{App: "x", Returned: true}).OK)
			}
			l.Unfound("x", spare.Calls-n)
		}
		require.Less(t, searches, 100)
		time.Sleep(time.Second)
		l.Done("x")
		require.Empty(t, l.Spare())
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
		require.Empty(t, l.Spare())
	})
}

// TestSpareCallsOfAClockSetBack checks that a clock which is corrected stops nothing.
func TestSpareCallsOfAClockSetBack(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	l, err := limit.New(limit.Options{
		SharedState: memstate.New(nil), Executor: "a", Share: 10,
		Now: func() time.Time { return now }, Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	for range 10 {
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
	}
	for range 3 {
		require.False(t, l.Start(limit.Ask{App: "x"}).OK)
		now = now.Add(-time.Second)
	}
	for range 10 {
		l.Done("x")
	}
	require.True(t, l.Start(limit.Ask{App: "x"}).OK)
	l.Done("x")

	for range 10 {
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
	}
	for range 100 {
		require.False(t, l.Start(limit.Ask{App: "x"}).OK)
	}
	now = now.Add(-110 * time.Millisecond) // a caller that read it before others
	for len(l.Spare()) > 0 {
		<-l.Spare()
	}
	l.Done("x")
	require.Len(t, l.Spare(), 1, "all are known still")
}

// TestSpareCallsWithoutLimits checks that an app without limits is not forgotten while fires of it are
// deferred, although all calls have ended, and none has started for a while.
func TestSpareCallsWithoutLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, ls := run(t, "a")
		l := ls[0]
		hang(t, l, 10_000)
		for range 1000 {
			l.Done("x")
		}
		for len(l.Spare()) > 0 {
			<-l.Spare()
		}
		time.Sleep(30 * time.Second)
		require.True(t, l.Start(limit.Ask{App: "x"}).OK)
		l.Done("x")
		require.Len(t, l.Spare(), 1)
	})
}
