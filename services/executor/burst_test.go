package executor_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// slowClaims is a store whose claims wait, and then win nothing.
type slowClaims struct {
	executor.Store
	let    chan struct{} // each value lets one claim proceed
	mu     sync.Mutex
	claims [][]timer.Fire
}

func (s *slowClaims) Claim(
	_ context.Context,
	_ timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	s.mu.Lock()
	s.claims = append(s.claims, fires)
	s.mu.Unlock()
	<-s.let
	return nil, nil
}

func (s *slowClaims) seen() [][]timer.Fire {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]timer.Fire(nil), s.claims...)
}

// TestBurstIsClaimedInTurnWithOtherApps checks that one app's task is in the next claim, although
// it is on the topic behind tens of thousands of another app's tasks.
func TestBurstIsClaimedInTurnWithOtherApps(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	slow := &slowClaims{Store: parts.Store, let: make(chan struct{})}
	reg := prometheus.NewRegistry()
	start(
		t,
		parts,
		"one",
		&receiver{},
		func(o *executor.Options) { o.Store, o.Registerer = slow, reg },
	)
	due := time.Now().Add(time.Hour).UnixMilli()
	publish := func(app int64, from, n int) {
		msgs := make([]bus.Message, n)
		for i := range msgs {
			f := timer.Fire{
				FireID:  timer.FireID{Timer: timer.ID(app*1_000_000 + int64(from+i)), DueMS: due},
				RunAtMS: due,
				AppID:   app,
			}
			msgs[i] = bus.Message{Payload: taskwire.Encode(&f)}
		}
		require.NoError(t, parts.Bus("load").Publish(t.Context(), bus.TasksNormal, msgs...))
	}
	const burst, others = 30_000, 10
	publish(1, 0, burst)
	require.Eventually(
		t,
		func() bool { return len(slow.seen()) == 2 },
		time.Minute,
		5*time.Millisecond,
		"two concurrent claims",
	)
	publish(2, 0, others)
	taken := len(slow.seen()[0]) + len(slow.seen()[1])
	require.Eventually(
		t,
		func() bool { return gauge(t, reg, "carillon_tasks_waiting") == float64(burst+others-taken) },
		time.Minute,
		5*time.Millisecond,
		"all tasks wait here, not on the topic",
	)
	slow.let <- struct{}{}
	slow.let <- struct{}{}
	require.Eventually(
		t,
		func() bool { return len(slow.seen()) == 4 },
		time.Minute,
		5*time.Millisecond,
	)
	next := slices.Concat(slow.seen()[2:]...)
	close(slow.let)
	require.LessOrEqual(t, len(next), 2*store.MaxBatch)
	n := 0
	for _, f := range next {
		if f.AppID == 2 {
			n++
		}
	}
	require.Equal(t, others, n)
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric of this name", name)
	return 0
}

// TestSlowRecordsStopClaims checks that an executor claims no more tasks while too many results wait
// to be written, so that they stay on the topic, and that it goes on after that.
func TestSlowRecordsStopClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		begin := time.Now()
		start(t, parts, "one", r, func(o *executor.Options) {
			o.MaxInflight = 10_000
			o.Store = slowRecords{o.Store.(store.Store), begin, begin.Add(8 * time.Second)}
		})
		const many, few = 9000, 10 // many are more than the results that may wait
		burst := parts.Create("a", slices.Repeat(soon(1, time.Second), many)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), burst))
		time.Sleep(4 * time.Second)
		later := parts.Create("b", soon(few, time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), later))
		time.Sleep(2 * time.Second)
		ids := make([]timer.FireID, len(later))
		for i := range later {
			ids[i] = later[i].FireID
		}
		open, err := parts.Store.OpenAmong(t.Context(), ids)
		require.NoError(t, err)
		require.Len(t, open, few)
		for i := range open {
			require.Zero(t, open[i].Owner, "claimed")
		}
		time.Sleep(10 * time.Second)
		require.Len(t, r.of("a"), many)
		require.Len(t, r.of("b"), few)
	})
}

// TestALongBacklogUsesNoMemory checks that fires of an app which wait for its rate much longer than
// limit.MaxWait do not stay in the executor once they have come back from the store.
func TestALongBacklogUsesNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 800, 1
		parts := servicetest.New(t, servicetest.Options{})
		_, err := parts.Store.PutSettings(
			t.Context(), "a", store.AppSettings{Rate: rate, Burst: 1}, 0,
		)
		require.NoError(t, err)
		reg, r := prometheus.NewRegistry(), new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) { o.Registerer = reg })
		due := time.Now().Add(time.Second)
		parts.Dispatch.Committed(t.Context(), parts.Create("a", soon(n, time.Second)...))
		most := 0.0
		for time.Since(due) < 450*time.Second {
			time.Sleep(time.Second)
			if time.Since(due) > limit.MaxWait {
				most = max(most, gauge(t, reg, "carillon_executor_inflight_fires"))
			}
		}
		require.InDelta(t, 450, r.total(), 20, "the rate is used")
		require.Less(t, most, 50.0)
	})
}
