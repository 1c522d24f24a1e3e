package limit_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// TestABacklogAsksRarely checks that fires of a backlog far beyond MaxWait do not ask again and again
// once they return, and that they use the rate all the same.
func TestABacklogAsksRarely(t *testing.T) {
	t.Parallel()
	for _, executors := range [][]string{{"a"}, {"a", "b", "c"}} {
		requireRareAsks(t, executors)
	}
}

func requireRareAsks(t *testing.T, executors []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const rate, fires, stretch = 20, 20_000, 10 * time.Second
		_, ls := run(t, executors...)
		for _, l := range ls {
			l.Set("x", limit.Settings{Rate: rate, Burst: 1})
		}
		began := time.Now()
		asks := make(map[int]int) // in each stretch
		var mu sync.Mutex
		var all sync.WaitGroup
		start := func(l *limit.Limiter) *limit.Limiter {
			w := make(ready)
			for a := (limit.Ask{App: "x", Waiter: w, Hold: holdTime}); ; a.Returned = true {
				mu.Lock()
				asks[int(time.Since(began)/stretch)]++
				mu.Unlock()
				d := l.Start(a)
				switch {
				case d.OK:
					return l
				case d.Waits:
					<-w
					return l
				}
				time.Sleep(time.Until(d.At))
				l = ls[rand.IntN(len(ls))] // from the store, to any executor
			}
		}
		for i := range fires {
			all.Go(func() { start(ls[i%len(ls)]).Done("x") })
		}
		all.Wait()
		require.Less(t, time.Since(began), fires/rate*1050*time.Millisecond, "the rate is used")
		most := 0
		for i, n := range asks {
			if i >= int(limit.MaxWait/stretch) {
				most = max(most, n)
			}
		}
		t.Logf("at most %.0f asks/s by %d", float64(most)/stretch.Seconds(), len(ls))
		require.Less(t, most, 8*rate*int(stretch/time.Second)*len(ls))
	})
}
