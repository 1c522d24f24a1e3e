package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestCatchUpLeavesRoomForThePresent: of what is late only so much waits in hand, however much of the hands is free.
func TestCatchUpLeavesRoomForThePresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, term := newHands(100*maxLate), new(session.Term)
		fires := make([]timer.Fire, 2*maxLate)
		for i := range fires {
			fires[i].FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
		}
		late, _, err := h.take(t.Context(), term, fires[:maxLate], true, 1<<40)
		require.NoError(t, err)
		require.Len(t, late, maxLate)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = h.take(ctx, term, fires[maxLate:maxLate+1], true, 1<<40)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		present, _, err := h.take(t.Context(), term, fires[maxLate:maxLate+10], false, 1<<40)
		require.NoError(t, err)
		require.Len(t, present, 10)

		go func() {
			time.Sleep(time.Second)
			h.begun(present[0])
			h.begun(late[0])
			h.begun(late[0])
		}()
		began := time.Now()
		more, _, err := h.take(t.Context(), term, fires[maxLate+10:maxLate+11], true, 1<<40)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		h.drop(append(late, more...)...)
		require.Zero(t, h.late, "each was counted once")
	})
}
