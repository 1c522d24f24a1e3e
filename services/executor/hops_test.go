package executor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// hops returns the outcomes of finished fires by their hops.
func hops(t *testing.T, parts *servicetest.Parts, fires []timer.Fire) (out []timer.Outcome) {
	t.Helper()
	for i := range fires {
		rec, err := parts.Store.Fire(t.Context(), "a", fires[i].FireID)
		require.NoError(t, err)
		require.NotNil(t, rec.Outcome, "fire %d is open", i)
		out = append(out, *rec.Outcome)
	}
	return out
}

// paths counts finished fires of the app "a" by the path on which they came.
func paths(t *testing.T, parts *servicetest.Parts, fires []timer.Fire) map[timer.Path]int {
	t.Helper()
	n := make(map[timer.Path]int)
	for _, o := range hops(t, parts, fires) {
		n[o.Hops.Path]++
	}
	return n
}

// TestFiresTellTheirPath checks how fires say that they came, with a task and without one. The tests
// of the other paths check theirs.
func TestFiresTellTheirPath(t *testing.T) {
	t.Parallel()
	for path, dispatch := range map[timer.Path]func(parts *servicetest.Parts, fires []timer.Fire){
		timer.PathDirect: func(parts *servicetest.Parts, fires []timer.Fire) {
			parts.Dispatch.Committed(t.Context(), fires)
		},
		timer.PathSlice: func(parts *servicetest.Parts, fires []timer.Fire) {
			require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		},
		timer.PathDueSoon: func(*servicetest.Parts, []timer.Fire) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			busyMinutes(t, parts)
			r := new(receiver)
			startPolling(t, parts, "one", r)
			fires := parts.Create("a", soon(5, 3*time.Second)...)
			dispatch(parts, fires)
			time.Sleep(5 * time.Second)
			for _, o := range hops(t, parts, fires) {
				require.Equal(t, path, o.Hops.Path)
				require.Equal(t, path.HasTask(), o.Hops.DispatchedMS != 0)
				require.Less(t, o.Hops.DispatchedMS, o.DueMS)
				require.Less(t, o.Hops.ClaimedMS, o.DueMS)
				require.NotZero(t, o.Hops.ClaimedMS)
				require.NotEqual(t, timer.WaitUnknown, o.Hops.WaitedFor)
			}
		})
	}
}

// TestFiresOfAnExecutorLongDeadSaySo checks fires of a session that expired so long ago that they
// are found as overdue.
func TestFiresOfAnExecutorLongDeadSaySo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := parts.Create("a", soon(6, time.Second)...)
		dead := store.Session{ID: 42, Kind: store.ExecutorSession, Name: "dead"}
		require.NoError(t, parts.Store.OpenSession(t.Context(), dead))
		won, err := parts.Store.Claim(t.Context(), dead.ID, fires[:4])
		require.NoError(t, err)
		require.Len(t, won, 4)
		expired, err := parts.Store.ExpireSession(t.Context(), dead.ID, 0)
		require.NoError(t, err)
		require.True(t, expired)
		time.Sleep(5 * time.Minute)
		startPolling(t, parts, "one", new(receiver))
		time.Sleep(time.Minute)
		require.Equal(t, map[timer.Path]int{timer.PathOrphaned: 4}, paths(t, parts, fires[:4]))
		require.Equal(t, map[timer.Path]int{timer.PathOverdue: 2}, paths(t, parts, fires[4:]))
	})
}

// TestWaitsForLimitsCountFromTheFirst checks that a fire that is deferred in the store several times
// waits since the first time.
func TestWaitsForLimitsCountFromTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, nil)
		_, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 1, Burst: 1}, 0)
		require.NoError(t, err)
		fires := parts.Create("a", soon(40, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(10 * time.Second)
		open, err := parts.Store.OpenAmong(t.Context(), idsOf(fires))
		require.NoError(t, err)
		deferred := 0
		for _, f := range open {
			if f.State == timer.FireDeferred {
				deferred++
				require.Equal(t, timer.WaitLimits, f.WaitedFor)
				require.InDelta(t, f.DueMS, f.WaitingSinceMS, 100, "since the first time")
			}
		}
		require.Positive(t, deferred)

		publishDue(t, parts, fires, time.Minute)
		long := 0
		for _, o := range hops(t, parts, fires) {
			if o.LatenessMS < 2*time.Second.Milliseconds() {
				continue
			}
			long++
			require.Equal(t, timer.WaitLimits, o.Hops.WaitedFor)
			require.InDelta(t, o.LatenessMS, o.Hops.WaitedMS, 100)
		}
		require.Greater(t, long, 30)
	})
}

func idsOf(fires []timer.Fire) (ids []timer.FireID) {
	for i := range fires {
		ids = append(ids, fires[i].FireID)
	}
	return ids
}
