package intake

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// newBatch returns a batch of n tasks of one app.
func newBatch(app int64, n int) *taskBatch {
	d := &taskBatch{tasks: make([]task, n), errs: make([]error, n), done: make(chan struct{})}
	for i := range d.tasks {
		d.tasks[i] = task{
			fire: timer.Fire{
				AppID:  app,
				FireID: timer.FireID{Timer: timer.ID(app), DueMS: int64(i)},
			},
			index: i,
		}
	}
	return d
}

func isDone(d *taskBatch) bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

func TestClaimsServeAppsInTurn(t *testing.T) {
	t.Parallel()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{})
	c := newClaimQueue(1, gauge)
	burst, other := newBatch(1, 1000), newBatch(2, 2)
	c.add(burst)
	c.add(other)
	require.InDelta(t, 1002, testutil.ToFloat64(gauge), 0)
	got := c.take(10)
	require.Len(t, got, 10)
	for i, want := range []int64{1, 2, 1, 2, 1, 1} {
		require.Equal(t, want, got[i].fire.AppID, "index %d", i)
	}
	refused := errors.New("refused")
	errs := make([]error, 10)
	errs[3] = refused
	c.answer(got, errs)
	require.True(t, isDone(other))
	require.False(t, c.hasWaiting(other))
	require.True(t, c.hasWaiting(burst))
	require.Equal(t, []error{nil, refused}, other.errs)
	require.False(t, isDone(burst))
	require.InDelta(t, 992, testutil.ToFloat64(gauge), 0)
	for !isDone(burst) {
		got = c.take(500)
		require.NotEmpty(t, got)
		c.answer(got, make([]error, len(got)))
	}
	require.Empty(t, c.take(1))
	require.Zero(t, testutil.ToFloat64(gauge))
}

// TestWithdrawnTasksAreNotClaimed checks that withdrawn tasks are answered at once, and taken ones
// by their claim.
func TestWithdrawnTasksAreNotClaimed(t *testing.T) {
	t.Parallel()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{})
	c := newClaimQueue(1, gauge)
	d, stays := newBatch(1, 5), newBatch(1, 1)
	c.add(d)
	c.add(stays)
	taken := c.take(2)
	closing := errors.New("closing")
	c.withdraw(d, closing)
	c.withdraw(d, closing) // answers no task twice
	require.False(t, isDone(d), "two are taken")
	require.False(t, c.hasWaiting(d))
	c.answer(taken, make([]error, 2))
	require.True(t, isDone(d))
	require.Equal(t, []error{nil, nil, closing, closing, closing}, d.errs)
	got := c.take(10)
	require.Len(t, got, 1)
	require.Same(t, stays, got[0].batch)
	require.Zero(t, testutil.ToFloat64(gauge))
	none := newBatch(1, 0)
	c.add(none)
	require.True(t, isDone(none), "a batch without readable tasks")
}
