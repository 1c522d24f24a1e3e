package fires

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestCompletionsAreLimitedPerFireAndAddress checks that an address gets half of the slots and a
// fire four completions, and that finished ones leave no state.
func TestCompletionsAreLimitedPerFireAndAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCompletionLimiter(4)
		here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		var busy atomic.Int64
		free := make(chan struct{})
		begin := func(fire int64, a netip.Addr) *completionPermit {
			c, ok := s.admit(timer.FireID{Timer: timer.ID(fire)}, a)
			require.True(t, ok)
			return c
		}
		work := func(c *completionPermit) {
			require.NoError(t, c.withSlot(t.Context(), func() error {
				busy.Add(1)
				<-free
				busy.Add(-1)
				return nil
			}))
			c.release()
		}
		for fire := range int64(6) {
			go work(begin(fire, here))
		}
		synctest.Wait()
		require.EqualValues(t, 2, busy.Load(), "half of four")
		go work(begin(7, there))
		synctest.Wait()
		require.EqualValues(t, 3, busy.Load(), "another address has its turn at once")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		late := begin(8, here)
		err := late.withSlot(ctx, func() error { return errors.New("not now") })
		cancel()
		require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
		late.release()

		same := timer.FireID{Timer: 9}
		var of []*completionPermit
		for range maxCompletionsPerFire {
			c, ok := s.admit(same, there)
			require.True(t, ok)
			of = append(of, c)
		}
		_, ok := s.admit(same, here)
		require.False(t, ok)
		of[0].release()
		c, ok := s.admit(same, here)
		require.True(t, ok)
		of[0] = c
		for _, c := range of {
			c.release()
		}
		for range maxCompletionsPerAddress {
			if c, ok = s.admit(timer.FireID{Timer: timer.ID(100 + len(of))}, there); ok {
				of = append(of, c)
			}
		}
		require.Len(
			t,
			of,
			maxCompletionsPerFire+maxCompletionsPerAddress-1,
			"the one at work counts",
		)
		for _, c := range of[maxCompletionsPerFire:] {
			c.release()
		}
		close(free)
		synctest.Wait()
		require.Zero(t, busy.Load())
		require.Empty(t, s.addresses)
		require.Empty(t, s.fires)
	})
}
