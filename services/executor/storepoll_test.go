package executor_test

import (
	"context"
	"errors"
	"net/http"
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

// pollingStore counts an executor's polls and claims.
type pollingStore struct {
	executor.Store

	reg    *prometheus.Registry
	looks  atomic.Int64
	claims atomic.Int64
	asked  atomic.Int64 // fires in claims
	slow   atomic.Int64 // delay of claims, ns
	cut    atomic.Bool  // claims commit, and their answers are lost
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
		return nil, errors.New("answer lost")
	}
	return won, err
}

// startPolling starts an executor that polls fires a second before their run time while no tasks
// come.
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

// taken returns how many fires it claimed without a task.
func (l *pollingStore) taken(t *testing.T) int {
	t.Helper()
	families, err := l.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "carillon_fires_polled_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	require.Fail(t, "no metric of this name")
	return 0
}

// busyMinutes gives the next minutes eight buckets.
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
		// No tasks are published for these.
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
		require.EqualValues(
			t,
			1000,
			one.asked.Load()+two.asked.Load(),
			"executors divide the buckets",
		)
		require.Greater(t, min(one.asked.Load(), two.asked.Load()), int64(300))
	})
}

// TestOverdueFiresAreFoundDuringLongCalls checks that an executor whose calls hang still calls a fire
// that no task brings, if it has a free worker.
func TestOverdueFiresAreFoundDuringLongCalls(t *testing.T) {
	t.Parallel()
	for _, inCalls := range []int{3, 5, 9} { // a quarter of the set, half, and all but one
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			r := &receiver{answer: func(q *callback.Request) callback.Result {
				if q.App == "hangs" {
					time.Sleep(2 * time.Minute)
				}
				return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
			}}
			start(t, parts, "one", r, func(o *executor.Options) {
				o.PollAhead, o.MaxInflight = time.Second, 10
			})
			hang := parts.Create("hangs", soon(inCalls, time.Second)...)
			parts.Dispatch.Committed(t.Context(), hang)
			time.Sleep(5 * time.Second)
			require.Len(t, r.attempts(), inCalls)
			f := parts.Create("a", soon(1, time.Second)...)[0]
			time.Sleep(75 * time.Second)
			require.Equal(t, 1, r.attempts()[f.FireID])
		})
	}
}

// TestWithoutTasksImminentFiresAreHardlyLate checks that once tasks are known to be missing, a new
// fire that is due soon is claimed at the first poll.
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

// TestAfterTasksReturnImminentFiresAreHardlyLate checks a recovered broker that is slow at first,
// and slow in only some partitions.
func TestAfterTasksReturnImminentFiresAreHardlyLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		startPolling(t, parts, "one", r)
		time.Sleep(2 * time.Second)
		parts.Create("a", soon(1, 50*time.Millisecond)...) // no task brings it
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

// TestWhileTasksArriveOnlyLostFiresArePolled checks that fires with tasks are not claimed by polls,
// and that one with a lost task is claimed before its run time.
func TestWhileTasksArriveOnlyLostFiresArePolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		l := startPolling(t, parts, "one", r)
		lost := parts.Create("a", soon(1, 10*time.Second)...)
		for range 60 {
			fires := parts.Create("a", soon(1, 700*time.Millisecond)...)
			time.Sleep(100 * time.Millisecond) // delivery delay
			parts.Dispatch.Committed(t.Context(), fires)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Second)
		requireOnTime(t, r, 61)
		require.Contains(t, r.attempts(), lost[0].FireID)
		require.Less(
			t,
			l.taken(t),
			10,
			"the lost one, and for a while those whose tasks are under way",
		)
		before := l.looks.Load()
		time.Sleep(time.Minute)
		require.Less(
			t,
			l.looks.Load()-before,
			int64(400),
			"an idle executor polls a few times per second",
		)
	})
}

// TestNoPollWhileTopicsAreBehind checks that fires are left to their tasks while topics are behind.
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

// TestNoPollOfLowFiresWhileLowTopicIsBehind checks that fires of the low-priority topic are not
// claimed before on-time fires.
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
		require.Zero(t, l.taken(t), "a thousand wait for their call, and no more are claimed")
		time.Sleep(3 * time.Minute)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 4000},
			outcomes(t, parts, "a", fires),
		)
	})
}

// TestNoPollOfBurstOnLowTopic checks that an app's burst is left to the low-priority topic, and
// that other fires without tasks are found.
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
		burst, lost := parts.Create("a", defs...), parts.Create("b", soon(10, 3*time.Second)...)
		// A trigger is running.
		require.NoError(
			t,
			parts.Dispatch.Publish(t.Context(), parts.Create("c", soon(1, 3*time.Second)...)),
		)
		l.slow.Store(int64(time.Second))
		require.NoError(t, parts.Dispatch.PublishLow(t.Context(), burst))
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
			map[timer.OutcomeKind]int{timer.Delivered: len(burst)},
			outcomes(t, parts, "a", burst),
		)
	})
}

// TestWithoutTasksLateFiresArePolledBesideOnTimeFires checks that late fires are claimed too, also
// those in the shard of an executor that claims nothing.
func TestWithoutTasksLateFiresArePolledBesideOnTimeFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		busyMinutes(t, parts)
		r := new(receiver)
		late := parts.Create("a", soon(1200, time.Second)...)
		time.Sleep(30 * time.Second)
		one := startPolling(t, parts, "one", r)
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: parts.IDs.Next(), Kind: store.ExecutorSession, Name: "idle"},
			),
		)
		present := parts.Create("a", soon(500, 4*time.Second)...)
		time.Sleep(20 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 1200},
			outcomes(t, parts, "a", late),
		)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 500},
			outcomes(t, parts, "a", present),
		)
		require.Equal(t, map[timer.Path]int{timer.PathOverdue: 1200}, paths(t, parts, late))
		require.Less(t, one.claims.Load(), int64(100), "in batches")
	})
}

// TestWithoutTasksOrphansAreRecovered checks that another executor calls a fire whose executor died
// while no task could be published.
func TestWithoutTasksOrphansAreRecovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		fires := parts.Create("a", soon(10, 3*time.Second)...)
		dead := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: dead, Kind: store.ExecutorSession, Name: "dead"},
			),
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
		require.Equal(t, map[timer.Path]int{timer.PathOrphaned: 10}, paths(t, parts, fires))
	})
}

// TestFiresOfFrozenExecutorAreOnTime checks fires whose tasks are with a frozen executor, while
// other tasks arrive. Nobody claimed them, so the end of its session alone does not recover them.
func TestFiresOfFrozenExecutorAreOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		busyMinutes(t, parts)
		r := new(receiver)
		startPolling(t, parts, "one", r)
		frozen := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: frozen, Kind: store.ExecutorSession, Name: "frozen"},
			),
		)
		time.Sleep(2 * time.Second)
		fires := parts.Create("a", soon(40, 4*time.Second)...) // their tasks are with the other
		for range 50 {
			parts.Dispatch.Committed(
				t.Context(),
				parts.Create("a", soon(1, 1500*time.Millisecond)...),
			)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		requireOnTime(t, r, 90)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 40},
			outcomes(t, parts, "a", fires),
		)
	})
}

// TestTasksDuringAPollAreRedelivered checks that a task that arrives during the claim of a poll is
// not acknowledged: if the claim fails, only the task carries the fire.
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
		require.Empty(t, r.attempts(), "their owner is unknown")
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

// TestP3WithoutTasksOnBadDays checks that fires without tasks are called once, whatever the store
// does.
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
	require.ErrorContains(t, err, "PollAhead is not negative")
}

// TestChangesArePolledWhileStatesAreFresh checks that a poll interval by which each call would read
// its timer's state is refused.
func TestChangesArePolledWhileStatesAreFresh(t *testing.T) {
	t.Parallel()
	_, err := executor.New(executor.Options{ChangePollInterval: 900 * time.Millisecond})
	require.ErrorContains(t, err, "ChangePollInterval is below 900ms")
	_, err = executor.New(executor.Options{ChangePollInterval: 899 * time.Millisecond})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "ChangePollInterval")
}
