package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

// TestALaterFireCancelsAttempts checks that only attempts whose timer cancels them end, and only if
// a later fire holds the slot.
func TestALaterFireCancelsAttempts(t *testing.T) {
	t.Parallel()
	epoch := inflighttest.Epoch(t)
	entry := func(due int64, p timer.ConcurrencyPolicy) *inflight.Entry {
		return &inflight.Entry{
			Fire:  timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: due}},
			Epoch: epoch,
			Def:   &timer.Definition{Concurrency: timer.Concurrency{Policy: p}},
		}
	}
	active := NewActive()
	first, firstDone := active.Begin(entry(1, timer.ConcurrencyCancelPrevious))
	second, secondDone := active.Begin(entry(2, timer.ConcurrencyCancelPrevious))
	other, otherDone := active.Begin(entry(1, timer.ConcurrencySkip))
	began := time.Now()
	later := began.Add(time.Second)
	active.CancelSuperseded(&timer.State{ID: 1}, later)
	require.NoError(t, first.Err(), "nobody holds the slot")
	ended := timer.State{ID: 1, LastRunning: timer.FireID{Timer: 1, DueMS: 2}}
	active.CancelSuperseded(&ended, began.Add(-time.Hour))
	require.NoError(t, first.Err(), "the state is older than the attempt")
	active.CancelSuperseded(&ended, later)
	require.Error(t, first.Err())
	require.NoError(t, second.Err())
	require.NoError(t, other.Err())
	require.True(t, firstDone())
	require.False(t, secondDone())
	require.False(t, otherDone())
	require.Empty(t, active.byTimer)
}
