package record

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// timersOf are timer metrics, and what the executor knows of its timers.
type timersOf struct {
	*timerMetrics

	states map[timer.ID]timer.State
}

func newTimersOf() *timersOf {
	m := &timersOf{states: make(map[timer.ID]timer.State)}
	m.timerMetrics = newTimerMetrics(
		prometheus.NewRegistry(),
		func(id timer.ID, version int32) bool {
			s, ok := m.states[id]
			return !ok || s.Status != timer.StatusDeleted && s.Version <= version
		},
		zerolog.Nop(),
	)
	return m
}

func (m *timersOf) ended(id timer.ID, version int32, asks bool, kind timer.OutcomeKind) {
	e := &inflight.Entry{
		App: "shop", Name: fmt.Sprint("timer-", id), Def: &timer.Definition{Metrics: asks},
	}
	m.recorded(e, &timer.Outcome{
		Fire:     timer.Fire{FireID: timer.FireID{Timer: id}, Version: version},
		Kind:     kind,
		Attempts: 1,
	})
}

func (m *timersOf) change(s timer.State) {
	m.states[s.ID] = s // first, as the executor does
	m.changed(&s)
}

func TestTimersHaveSeriesWhereTheyAsk(t *testing.T) {
	t.Parallel()
	m := newTimersOf()
	m.ended(1, 1, true, timer.Delivered)
	m.ended(1, 1, true, timer.Failed)
	m.ended(2, 1, false, timer.Delivered)
	require.Equal(t, 2, testutil.CollectAndCount(m.fires))
	require.Equal(t, 1, testutil.CollectAndCount(m.lateness))
	require.Equal(t, 1, m.len())
	require.InDelta(t, 1,
		testutil.ToFloat64(m.fires.WithLabelValues("shop", "timer-1", "failed", "")), 0)
}

func TestSeriesGoWithTheirTimer(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]timer.State{
		"deleted":   {ID: 1, Version: 1, Status: timer.StatusDeleted},
		"opted out": {ID: 1, Version: 2, Status: timer.StatusActive},
	} {
		m := newTimersOf()
		m.ended(1, 1, true, timer.Delivered)
		m.change(timer.State{ID: 1, Version: 1, Status: timer.StatusPaused})
		require.Equal(t, 1, m.len(), "the definition is the same")
		m.change(after)
		require.Zero(t, m.len(), name)
		m.ended(1, 1, true, timer.Failed) // it was called meanwhile
		require.Zero(t, testutil.CollectAndCount(m.fires), name)
		require.Zero(t, testutil.CollectAndCount(m.lateness), name)
	}
	m := newTimersOf()
	m.ended(1, 1, true, timer.Delivered)
	m.change(timer.State{ID: 1, Version: 2, Status: timer.StatusActive})
	m.ended(1, 2, true, timer.Delivered)
	require.Equal(t, 1, m.len(), "it still asks")
	m.clear()
	require.Zero(t, testutil.CollectAndCount(m.fires))
}

func TestTimerSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := newTimersOf()
	for i := range maxTimers + 50 {
		m.ended(timer.ID(i+1), 1, true, timer.Delivered)
	}
	require.Equal(t, maxTimers, m.len())
	require.Equal(t, maxTimers+1, testutil.CollectAndCount(m.fires))
	require.InDelta(t, 50,
		testutil.ToFloat64(m.fires.WithLabelValues(otherTimers, otherTimers, "delivered", "")), 0)
	m.change(timer.State{ID: 7, Status: timer.StatusDeleted})
	m.ended(maxTimers+1, 1, true, timer.Delivered)
	require.Equal(t, maxTimers, m.len(), "there is room again")
}
