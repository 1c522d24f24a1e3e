package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
)

// TestTicksFallTogether checks that tickers that begin at different times tick at the same
// instants.
func TestTicksFallTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first []time.Time
		for i, interval := range []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second,
		} {
			time.Sleep(time.Duration(i*37) * time.Millisecond)
			began, tick := time.Now(), clock.NewTicker(interval)
			require.True(t, tick.Wait(t.Context()))
			at := time.Now()
			require.LessOrEqual(t, at.Sub(began), interval)
			first = append(first, at)
			for range 4 {
				require.True(t, tick.Wait(t.Context()))
				require.Equal(t, interval, time.Since(at))
				at = time.Now()
			}
		}
		for _, at := range first {
			require.Zero(t, at.Sub(first[0])%(250*time.Millisecond))
		}
	})
}

// TestMissedTicks checks that ticks that passed meanwhile are made up by one, at once.
func TestMissedTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tick := clock.NewTicker(time.Second)
		require.True(t, tick.Wait(ctx))
		time.Sleep(2700 * time.Millisecond)
		began := time.Now()
		require.True(t, tick.Wait(ctx))
		require.Zero(t, time.Since(began), "at once")
		require.True(t, tick.Wait(ctx))
		require.Equal(t, 300*time.Millisecond, time.Since(began), "and then at the next tick")
		cancel()
		require.False(t, tick.Wait(ctx))
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}
