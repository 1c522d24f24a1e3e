package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
)

// TestTicksFallTogether checks that polls that begin at different times tick at the same instants.
func TestTicksFallTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticks := make(map[time.Duration][]time.Time)
		for i, interval := range []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second,
		} {
			time.Sleep(time.Duration(i*37) * time.Millisecond)
			for range 4 {
				wait := clock.UntilTick(interval)
				require.Positive(t, wait)
				require.LessOrEqual(t, wait, interval)
				time.Sleep(wait)
				ticks[interval] = append(ticks[interval], time.Now())
			}
			for n := 1; n < len(ticks[interval]); n++ {
				require.Equal(t, interval, ticks[interval][n].Sub(ticks[interval][n-1]))
			}
		}
		longest := ticks[time.Second][0]
		for interval, at := range ticks {
			require.Zero(t, longest.Sub(at[0])%(250*time.Millisecond), interval)
		}
	})
}
