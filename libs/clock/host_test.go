package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
)

func TestHostIsShifted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h clock.Host
		require.True(t, h.Now().Equal(time.Now()))
		h.Set(2 * time.Second)
		require.Equal(t, 2*time.Second, time.Until(h.Now()))
		require.Equal(t, 500*time.Millisecond, h.Jump(-1500*time.Millisecond))
		require.Equal(t, 500*time.Millisecond, time.Until(h.Now()))
		h.Set(0)
		require.True(t, h.Now().Equal(time.Now()))
	})
}

// TestJumpIsMeasuredAtOnce: a jump is measured as soon as it is detected, because fires wait for
// it.
func TestJumpIsMeasuredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h clock.Host
		c := clock.New(h.Now, func(context.Context) (time.Time, error) { return time.Now(), nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		time.Sleep(1100 * time.Millisecond)
		h.Set(-2 * time.Second)
		_, steady := c.Read()
		require.False(t, steady)
		synctest.Wait()
		now, steady := c.Read()
		require.True(t, steady)
		require.True(t, now.Equal(time.Now()))
		off, at := c.Offset()
		require.Equal(t, 2*time.Second, off)
		require.Equal(t, time.Now(), at)
		cancel()
		<-ended
	})
}

func TestStamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m clock.Stamp
		require.False(t, m.Within(time.Hour), "never")
		m.Set()
		time.Sleep(10 * time.Second)
		require.True(t, m.Within(11*time.Second))
		require.False(t, m.Within(10*time.Second))
	})
}
