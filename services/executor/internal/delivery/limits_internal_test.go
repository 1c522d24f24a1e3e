package delivery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

// TestWaitOfAnAppWithoutLimits checks that a fire is not said to wait for limits that its app has
// not. It waits for the workers that its executor has for one app.
func TestWaitOfAnAppWithoutLimits(t *testing.T) {
	t.Parallel()
	require.Equal(t, timer.WaitWorker, waitOf(&limit.Settings{}))
	require.Equal(t, timer.WaitWorker, waitOf(&limit.Settings{Burst: 1}))
	require.Equal(t, timer.WaitLimits, waitOf(&limit.Settings{Rate: 0.5}))
	require.Equal(t, timer.WaitLimits, waitOf(&limit.Settings{Concurrent: 1}))
}

// TestWaitInFlight checks how long a fire may wait in its executor. It may wait long for a worker
// while there is much room, because to defer it costs the store two more writes, and for a moment
// while there is little.
func TestWaitInFlight(t *testing.T) {
	t.Parallel()
	set := inflight.New(80, inflighttest.NeverSlow)
	none, limited := &limit.Settings{}, &limit.Settings{Rate: 1}
	d := &Deliverer{opts: Options{Inflight: set}}
	fires := make([]inflight.Arrival, 21)
	for i := range fires {
		fires[i].Fire.FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
	}
	reserve := func(fires []inflight.Arrival) {
		_, _, err := set.Reserve(t.Context(), new(session.Epoch), fires, inflight.FromTask, 1<<40)
		require.NoError(t, err)
	}
	entry := func(k timer.ScheduleKind, p timer.MisfirePolicy) *inflight.Entry {
		return &inflight.Entry{Def: &timer.Definition{
			Schedule: timer.Schedule{Kind: k},
			Misfire:  timer.Misfire{Policy: p},
		}}
	}
	once := entry(timer.KindAt, "")
	require.Equal(t, longWait, d.holdOf(once, none))
	require.Equal(t, longWait, d.holdOf(entry(timer.KindCron, ""), none))
	require.Equal(
		t,
		inflight.MaxWait,
		d.holdOf(entry(timer.KindCron, timer.MisfireFireAll), none),
		"later fires of the timer wait for it in other executors",
	)
	require.Equal(t, inflight.MaxWait, d.holdOf(once, limited))
	reserve(fires[:10])
	require.Equal(t, inflight.MaxWait, d.holdOf(once, none))
	reserve(fires[10:])
	require.Equal(t, minDeferWait, d.holdOf(once, none))
	require.Equal(t, minDeferWait, d.holdOf(once, limited))
}
