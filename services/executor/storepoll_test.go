package executor_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// pollingStore counts what an executor asks the store for by itself.
type pollingStore struct {
	executor.Store

	reg    *prometheus.Registry
	looks  atomic.Int64
	claims atomic.Int64
	asked  atomic.Int64 // fires of the claims
	slow   atomic.Int64 // how long claims take
	cut    atomic.Bool  // claims are done, and their answers lost
}

func (l *pollingStore) LoadSlice(
	ctx context.Context,
	m int64,
	b int32,
	after store.Position,
	until int64,
	n int,
) ([]timer.Fire, error) {
	l.looks.Add(1)
	return l.Store.LoadSlice(ctx, m, b, after, until, n)
}

func (l *pollingStore) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	l.claims.Add(1)
	l.asked.Add(int64(len(fires)))
	time.Sleep(time.Duration(l.slow.Load()))
	won, err := l.Store.Claim(ctx, session, fires)
	if l.cut.Load() {
		return nil, errors.New("the answer is lost")
	}
	return won, err
}

// startPolling starts an executor that takes fires from the store a second before their run while no
// tasks come.
func startPolling(t *testing.T, parts *servicetest.Parts, name string, r *receiver) *pollingStore {
	t.Helper()
	l := &pollingStore{Store: parts.Store, reg: prometheus.NewRegistry()}
	start(
		t,
		parts,
		name,
		r,
		func(o *executor.Options) { o.PollAhead, o.Store, o.Registerer = time.Second, l, l.reg },
	)
	return l
}

// taken is how many fires it took without a task.
func (l *pollingStore) taken(t *testing.T) int {
	t.Helper()
	families, err := l.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "carillon_fires_polled_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	require.Fail(t, "there is no such metric")
	return 0
}

// busyMinutes lets fires of the next minutes lie in eight buckets.
func busyMinutes(t *testing.T, parts *servicetest.Parts) {
	t.Helper()
	var grown []slicing.Growth
	for m := range int64(5) {
		grown = append(
			grown,
			slicing.Growth{Minute: timer.MinuteOf(time.Now().UnixMilli()) + m - 3, Buckets: 8},
		)
	}
	counts, err := parts.Store.GrowMinutes(t.Context(), grown)
	require.NoError(t, err)
	parts.Counts.Refresh(counts)
}

func requireOnTime(t *testing.T, r *receiver, n int) {
	t.Helper()
	calls, at := r.seen()
	require.Len(t, calls, n)
	for i, c := range calls {
		late := at[i].Sub(time.UnixMilli(c.PlannedMS))
		require.GreaterOrEqual(t, late, time.Duration(0), "P1")
		require.Less(t, late, 50*time.Millisecond)
	}
}

func TestWithoutTasksFiresAreOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		busyMinutes(t, parts)
		r := new(receiver)
		one, two := startPolling(t, parts, "one", r), startPolling(t, parts, "two", r)
		// Nobody tells the executors of these: whatever hands tasks out is gone.
		fires := parts.Create("a", soon(1000, 3*time.Second)...)
		buckets := map[int32]bool{}
		for i := range fires {
			buckets[fires[i].Bucket] = true
		}
		require.Len(t, buckets, 8)
		time.Sleep(10 * time.Second)
		requireOnTime(t, r, 1000)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 1000},
			outcomes(t, parts, "a", fires),
		)
		require.EqualValues(t, 1000, one.asked.Load()+two.asked.Load(), "they divide what there is")
		require.Greater(t, min(one.asked.Load(), two.asked.Load()), int64(300))
	})
}

// Once tasks are known to be missing, a fire that is made with a near run is taken at the first
// look.
func TestWithoutTasksImminentFiresAreHardlyLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		startPolling(t, parts, "one", r)
		time.Sleep(2 * time.Second)
		for range 50 {
			parts.Create("a", soon(1, 50*time.Millisecond)...)
			time.Sleep(230 * time.Millisecond)
		}
		time.Sleep(time.Second)
		calls, at := r.seen()
		require.Len(t, calls, 50)
		for i, c := range calls[10:] {
			require.Less(t, at[i+10].Sub(time.UnixMilli(c.PlannedMS)), 260*time.Millisecond)
		}
	})
}

// A broker that is back is slow at first, and slow in some partitions only.
func TestAfterTasksReturnImminentFiresAreHardlyLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		startPolling(t, parts, "one", r)
		time.Sleep(2 * time.Second)
		parts.Create("a", soon(1, 50*time.Millisecond)...) // nothing brings it: tasks are away
		time.Sleep(2 * time.Second)
		for range 80 {
			parts.Dispatch.Committed(
				t.Context(),
				parts.Create("a", soon(1, 1500*time.Millisecond)...),
			)
			time.Sleep(100 * time.Millisecond)
		}
		slow := parts.Create("a", soon(1, 50*time.Millisecond)...)[0]
		time.Sleep(2 * time.Second)
		calls, at := r.seen()
		require.Len(t, calls, 82)
		i := slices.IndexFunc(calls, func(c callback.Request) bool { return c.Fire == slow.FireID })
		require.GreaterOrEqual(t, i, 0)
		require.Less(t, at[i].Sub(time.UnixMilli(slow.RunAtMS)), 260*time.Millisecond)
	})
}

// Tasks that come are not anticipated, and one that is lost among them is made up for before its
// run.
func TestWhileTasksArriveOnlyLostFiresArePolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		l := startPolling(t, parts, "one", r)
		lost := parts.Create("a", soon(1, 10*time.Second)...)
		for range 60 {
			fires := parts.Create("a", soon(1, 700*time.Millisecond)...)
			time.Sleep(100 * time.Millisecond) // on its way
			parts.Dispatch.Committed(t.Context(), fires)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Second)
		requireOnTime(t, r, 61)
		require.Contains(t, r.attempts(), lost[0].FireID)
		require.Less(t, l.taken(t), 10, "it, and for a while what was on its way")
		before := l.looks.Load()
		time.Sleep(time.Minute)
		require.Less(t, l.looks.Load()-before, int64(400), "idle, it asks a few times a second")
	})
}

// What waits on topics that are behind is left to its tasks.
func TestNoPollWhileTopicsAreBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		l := startPolling(t, parts, "one", r)
		l.slow.Store(int64(time.Second))
		fires := parts.Create("a", soon(6000, 2*time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(30 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 6000},
			outcomes(t, parts, "a", fires),
		)
		require.Zero(t, l.taken(t))
	})
}

// What waits on the low-priority topic, whose turn comes now and then, is not drawn before the
// present.
func TestNoPollOfLowFiresWhileLowTopicIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{takes: time.Second}
		l := startPolling(t, parts, "one", r)
		time.Sleep(3 * time.Second)
		defs := make([]timer.Definition, 4000)
		for i := range defs {
			defs[i] = servicetest.Once(time.Now(), "http://127.0.0.1/")
			defs[i].Priority = timer.PriorityLow
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(5 * time.Second)
		require.Zero(t, l.taken(t), "a thousand wait for their call, and more are not claimed")
		time.Sleep(3 * time.Minute)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 4000},
			outcomes(t, parts, "a", fires),
		)
	})
}

// The flood of an app that goes by the low-priority topic is left to it too, and what else has no
// task is found beside it.
func TestNoPollOfBurstOnLowTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		l := startPolling(t, parts, "one", new(receiver))
		time.Sleep(3 * time.Second)
		defs := make([]timer.Definition, 3000)
		at := time.Now().Add(3 * time.Second)
		for i := range defs {
			defs[i] = servicetest.Once(at, "http://127.0.0.1/")
		}
		flood, lost := parts.Create("a", defs...), parts.Create("b", soon(10, 3*time.Second)...)
		// a trigger is there.
		require.NoError(
			t,
			parts.Dispatch.Publish(t.Context(), parts.Create("c", soon(1, 3*time.Second)...)),
		)
		l.slow.Store(int64(time.Second))
		require.NoError(t, parts.Dispatch.PublishLow(t.Context(), flood))
		time.Sleep(5 * time.Second)
		require.Equal(t, len(lost), l.taken(t))
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: len(lost)},
			outcomes(t, parts, "b", lost),
		)
		time.Sleep(time.Minute)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: len(flood)},
			outcomes(t, parts, "a", flood),
		)
	})
}

// What is late is taken too, also the share of an executor that takes nothing.
func TestWithoutTasksLateFiresArePolledBesideOnTimeFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		busyMinutes(t, parts)
		r := new(receiver)
		late := parts.Create("late", soon(1200, time.Second)...)
		time.Sleep(30 * time.Second)
		one := startPolling(t, parts, "one", r)
		require.NoError(
			t,
			parts.Store.OpenSession(t.Context(), parts.IDs.Next(), store.ExecutorSession, "idle"),
		)
		present := parts.Create("a", soon(500, 4*time.Second)...)
		time.Sleep(20 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 1200},
			outcomes(t, parts, "late", late),
		)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 500},
			outcomes(t, parts, "a", present),
		)
		require.Less(t, one.claims.Load(), int64(100), "in batches")
	})
}

// A fire whose executor died while nothing could be published is called by another.
func TestWithoutTasksOrphansAreRecovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		fires := parts.Create("a", soon(10, 3*time.Second)...)
		dead := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(t.Context(), dead, store.ExecutorSession, "dead"),
		)
		won, err := parts.Store.Claim(t.Context(), dead, fires)
		require.NoError(t, err)
		require.Len(t, won, 10)
		require.NoError(t, parts.Store.CloseSession(t.Context(), dead))
		startPolling(t, parts, "one", r)
		time.Sleep(10 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 10},
			outcomes(t, parts, "a", fires),
		)
	})
}

// A task that comes while the claim of a look is on its way is not acknowledged: where the claim
// fails, only the task carries the fire.
func TestTasksDuringAPollAreRedelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		l := startPolling(t, parts, "one", r)
		l.cut.Store(true)
		fires := parts.Create("a", soon(20, 4*time.Second)...)
		time.Sleep(3500 * time.Millisecond) // found, claimed, and the answer lost
		require.Positive(t, l.claims.Load())
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(2 * time.Second)
		require.Empty(t, r.attempts(), "nobody knows whose they are")
		l.cut.Store(false)
		time.Sleep(30 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 20},
			outcomes(t, parts, "a", fires),
		)
		for id, n := range r.attempts() {
			require.Equal(t, 1, n, "fire %s", id)
		}
	})
}

// P3 without tasks, whatever the store does.
func TestP3WithoutTasksOnBadDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{
			Store: sqlstore.Faults{
				Seed:       3,
				FailRead:   .05,
				FailBefore: .1,
				FailAfter:  .1,
				Delay:      20 * time.Millisecond,
			},
		})
		r := &receiver{takes: 3 * time.Millisecond}
		startPolling(t, parts, "one", r)
		startPolling(t, parts, "two", r)
		fires := parts.Create("a", soon(300, 2*time.Second)...)
		time.Sleep(3 * time.Minute)
		for id, n := range r.attempts() {
			require.Equal(t, 1, n, "fire %s", id)
		}
		require.Len(t, r.attempts(), 300)
		require.Len(t, fires, 300)
	})
}

func TestPollAheadIsNotNegative(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	_, err := executor.New(
		executor.Options{Store: parts.Store, PollAhead: -1, Registerer: prometheus.NewRegistry()},
	)
	require.ErrorContains(t, err, "BypassAhead is not negative")
}
