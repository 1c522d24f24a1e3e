package intake

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCatchUpYieldsToOnTimeFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p catchUpThrottle
		require.Zero(t, p.delay())
		p.observe(congestedLateness - time.Millisecond)
		require.Zero(t, p.delay(), "no congestion")

		p.observe(congestedLateness)
		require.Equal(t, minCatchUpDelay, p.delay())
		require.Equal(t, 2*minCatchUpDelay, p.delay())
		for range 20 {
			p.delay()
		}
		require.Equal(t, maxCatchUpDelay, p.delay(), "catch-up continues during any congestion")

		time.Sleep(congestedFor)
		require.Equal(t, maxCatchUpDelay/2, p.delay())
		for range 20 {
			p.delay()
		}
		require.Zero(t, p.delay())
	})
}
