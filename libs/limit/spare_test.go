package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

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
