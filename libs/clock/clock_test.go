package clock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
)

// host is a host's clock that tests can shift. store is an exact clock.
type host struct{ off time.Duration }

func (h *host) now() time.Time                           { return time.Now().Add(h.off) }
func (h *host) store(context.Context) (time.Time, error) { return time.Now(), nil }
func (h *host) slowStore(context.Context) (time.Time, error) {
	time.Sleep(time.Second)
	return time.Now(), nil
}

func TestOffsetOfAnotherHostIsCorrected(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"ahead": 2 * time.Second, "behind": -2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &host{off: off}
				c := clock.New(h.now, h.store)
				require.NoError(t, c.Measure(t.Context()))
				require.WithinDuration(t, time.Now(), c.Now(), time.Millisecond)
				got, at := c.Offset()
				require.Equal(t, -off, got)
				require.Equal(t, time.Now(), at)
			})
		})
	}
}

func TestOffsetWithinTheToleranceIsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{off: 50 * time.Millisecond}
		c := clock.New(h.now, h.store)
		require.NoError(t, c.Measure(t.Context()))
		require.True(t, c.Now().Equal(h.now()), "the host's own clock is used")
	})
}

func TestClockIsUnsteadyFromAJumpUntilMeasured(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"forward": 3 * time.Second, "back": -3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &host{}
				c := clock.New(h.now, h.store)
				require.NoError(t, c.Measure(t.Context()))
				time.Sleep(10 * time.Second)
				_, steady := c.Read()
				require.True(t, steady, "time that passes is no jump")
				h.off = jump
				_, steady = c.Read()
				require.False(t, steady)
				now, steady := c.Read()
				require.False(t, steady, "a second reading does not make it steady")
				require.WithinDuration(
					t,
					time.Now(),
					now,
					time.Millisecond,
					"goes on from before the jump",
				)
				time.Sleep(time.Second)
				require.WithinDuration(t, time.Now(), c.Now(), time.Millisecond)
				require.NoError(t, c.Measure(t.Context()))
				now, steady = c.Read()
				require.True(t, steady)
				require.WithinDuration(t, time.Now(), now, time.Millisecond)
			})
		})
	}
}

// TestTimesHaveNoMonotonicReading checks that times are compared as they are shown. A correction
// would move a monotonic reading, too: after a jump of the host's clock, which the correction makes
// good, later times would count as earlier.
func TestTimesHaveNoMonotonicReading(t *testing.T) {
	t.Parallel()
	h := &host{off: time.Hour} // outside of a bubble, whose times have none either
	c := clock.New(h.now, h.store)
	require.NoError(t, c.Measure(t.Context()))
	now := c.Now()
	require.Equal(t, now.Round(0), now)
}

func TestSlowResponseDoesNotMoveASteadyClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		c := clock.New(h.now, h.store)
		require.NoError(t, c.Measure(t.Context()))
		slow := clock.New(h.now, h.slowStore)
		require.NoError(t, slow.Measure(t.Context()))
		got, at := slow.Offset()
		require.False(
			t,
			slow.Now().After(time.Now()),
			"the first measurement is taken for want of a better, and errs to the late side",
		)
		require.NoError(t, slow.Measure(t.Context()))
		again, then := slow.Offset()
		require.Equal(t, got, again)
		require.Equal(t, at, then)
	})
}

func TestP1NotSteadyBeforeTheFirstMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{off: 2 * time.Second}
		unavailable := errors.New("unavailable")
		c := clock.New(h.now, func(ctx context.Context) (time.Time, error) {
			if unavailable != nil {
				return time.Time{}, unavailable
			}
			return h.store(ctx)
		})
		_, steady := c.Read()
		require.False(t, steady)
		require.ErrorIs(t, c.Measure(t.Context()), unavailable)
		_, steady = c.Read()
		require.False(t, steady)
		unavailable = nil
		require.NoError(t, c.Measure(t.Context()))
		_, steady = c.Read()
		require.True(t, steady)
	})
}

// TestP1SlowStoreDoesNotMoveAnExactClock: a correct clock stays correct, however slow the store is
// and whenever it reads its clock.
func TestP1SlowStoreDoesNotMoveAnExactClock(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"read as asked": 0, "read half way": 200 * time.Millisecond, "read at the end": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := clock.New(time.Now, func(context.Context) (time.Time, error) {
					time.Sleep(before)
					now := time.Now()
					time.Sleep(400*time.Millisecond - before)
					return now, nil
				})
				require.NoError(t, c.Measure(t.Context()))
				require.True(t, c.Now().Equal(time.Now()))
			})
		})
	}
}

// TestJumpBeforeTheFirstMeasurementIsNoCorrection: what the host's clock showed before is not known to
// have been right.
func TestJumpBeforeTheFirstMeasurementIsNoCorrection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{off: 2 * time.Second}
		c := clock.New(h.now, func(context.Context) (time.Time, error) {
			now := time.Now()
			time.Sleep(400 * time.Millisecond)
			return now, nil
		})
		h.off = 0
		require.NoError(t, c.Measure(t.Context()))
		require.True(t, c.Now().Equal(time.Now()))
	})
}

// TestP1SlowStoreDoesNotMoveAClockThatIsNearlyExact: the store answers long after it has read its
// clock, which proves that the host's is some milliseconds ahead. That much counts as exact.
func TestP1SlowStoreDoesNotMoveAClockThatIsNearlyExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{off: 5 * time.Millisecond}
		took := 900 * time.Millisecond
		c := clock.New(h.now, func(context.Context) (time.Time, error) {
			now := time.Now()
			time.Sleep(took)
			return now, nil
		})
		exact := func() {
			t.Helper()
			require.NoError(t, c.Measure(t.Context()))
			require.WithinDuration(t, time.Now(), c.Now(), 5*time.Millisecond)
			_, steady := c.Read()
			require.True(t, steady)
		}
		exact()
		took = 0
		exact()
		took = 900 * time.Millisecond
		exact()
		h.off += 2 * time.Second // and a jump
		exact()
	})
}

// TestP1SlowStoreCorrectsAClockThatItProvesWrong: the host's clock is set right in steps too small
// to be noticed, while the store takes longer than the tolerance. The clock is not early by what it
// measured before.
func TestP1SlowStoreCorrectsAClockThatItProvesWrong(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"read as asked": 0, "read at the end": 150 * time.Millisecond} {
		for side, off := range map[string]time.Duration{"behind": -400 * time.Millisecond, "ahead": 400 * time.Millisecond} {
			t.Run(name+", "+side, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h, slow := &host{off: off}, false
					c := clock.New(h.now, func(context.Context) (time.Time, error) {
						if !slow {
							return time.Now(), nil
						}
						time.Sleep(before)
						now := time.Now()
						time.Sleep(150*time.Millisecond - before)
						return now, nil
					})
					require.NoError(t, c.Measure(t.Context()))
					require.WithinDuration(t, time.Now(), c.Now(), time.Millisecond)
					slow = true
					for range 2 {
						h.off -= off / 2
						time.Sleep(2 * time.Second)
						_, steady := c.Read()
						require.True(t, steady)
						require.NoError(t, c.Measure(t.Context()))
					}
					early := time.Until(c.Now())
					require.Less(t, early, 100*time.Millisecond)
					require.GreaterOrEqual(t, early, -150*time.Millisecond)
				})
			})
		}
	}
}

// TestP1SlowStoreAfterAJump: a slow response after a jump would be true of the host's new time, too.
// The clock goes on from before the jump.
func TestP1SlowStoreAfterAJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, slow := &host{}, false
		c := clock.New(h.now, func(context.Context) (time.Time, error) {
			if slow {
				time.Sleep(900 * time.Millisecond)
			}
			return time.Now(), nil
		})
		require.NoError(t, c.Measure(t.Context()))
		slow, h.off = true, 800*time.Millisecond
		require.NoError(t, c.Measure(t.Context()))
		now, steady := c.Read()
		require.True(t, steady)
		require.WithinDuration(t, time.Now(), now, time.Millisecond)
	})
}

func TestP1JumpDuringAMeasurementIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		c := clock.New(h.now, func(context.Context) (time.Time, error) {
			now := time.Now()
			h.off += 5 * time.Second
			return now, nil
		})
		require.Error(t, c.Measure(t.Context()))
		_, steady := c.Read()
		require.False(t, steady)
	})
}

func TestUnavailableStoreKeepsTheOffset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{off: time.Second}
		var unavailable atomic.Bool
		c := clock.New(h.now, func(ctx context.Context) (time.Time, error) {
			if unavailable.Load() {
				return time.Time{}, errors.New("unavailable")
			}
			return h.store(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		unavailable.Store(true)
		time.Sleep(10 * time.Second)
		require.WithinDuration(t, time.Now(), c.Now(), time.Millisecond)
		cancel()
		<-ended
	})
}
