package inflight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

// claimed returns the entry of a fire that was claimed at an instant.
func claimed(t *testing.T, f timer.Fire, h timer.Hops, source Source, atMS int64) *Entry {
	t.Helper()
	set := New(10, inflighttest.NeverSlow)
	es, _, err := set.Reserve(
		t.Context(), inflighttest.Epoch(t), []Arrival{{Fire: f, Hops: h}}, source, atMS,
	)
	require.NoError(t, err)
	set.Confirmed(es, atMS)
	return es[0]
}

var (
	due  = timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 1000}, RunAtMS: 1000}
	task = timer.Hops{Path: timer.PathSlice, DispatchedMS: 500}
)

func TestTheLongestWaitCounts(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromTask, 600)
	e.WaitFor(timer.WaitWorker, 1000)
	e.WaitFor(timer.WaitStore, 1010)
	e.WaitFor(timer.WaitStore, 1020) // asks again
	e.WaitFor(timer.WaitWorker, 1040)
	require.Equal(t, timer.Hops{
		Path: timer.PathSlice, DispatchedMS: 500, ClaimedMS: 600,
		WaitedFor: timer.WaitStore, WaitedMS: 30,
	}, e.Hops(1045))
	require.Equal(t, timer.WaitWorker, e.Hops(2000).WaitedFor, "it still waits")

	e.Attempted(1045)
	e.WaitFor(timer.WaitStore, 1100) // before the second attempt
	e.Attempted(9000)
	require.Equal(t, timer.WaitStore, e.Hops(9999).WaitedFor)
	require.EqualValues(t, 30, e.Hops(9999).WaitedMS, "the first attempt has ended its waits")
	require.Equal(t, timer.WaitStore, e.Fire.WaitedFor, "and its row tells")
}

func TestAFireCalledAtOnceWaitedForNothing(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromTask, 600)
	e.WaitFor(timer.WaitWorker, 1000)
	e.Attempted(1000)
	require.Equal(t, timer.WaitNothing, e.Hops(1234).WaitedFor)
	require.Zero(t, e.Hops(1234).WaitedMS)
}

// TestDeferralsKeepTheirFirstInstant checks that waits for limits count from the first deferral,
// whichever session owned the fire then.
func TestDeferralsKeepTheirFirstInstant(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromTask, 600)
	e.WaitFor(timer.WaitWorker, 1000)
	e.DeferFor(timer.WaitLimits, 1005)
	e.WaitFor(timer.WaitWorker, 3000)
	e.DeferFor(timer.WaitLimits, 3001)
	require.EqualValues(t, 1005, e.DeferredSince(timer.WaitLimits))
	require.Zero(t, e.DeferredSince(timer.WaitBreaker))

	row := e.Fire
	row.State, row.RunAtMS, row.Rev = timer.FireDeferred, 9000, 1
	e = claimed(t, row, timer.Hops{Path: timer.PathDirect, DispatchedMS: 8000}, FromTask, 8100)
	e.WaitFor(timer.WaitWorker, 9000)
	e.DeferFor(timer.WaitLimits, 9002)
	require.EqualValues(t, 1005, e.DeferredSince(timer.WaitLimits))
	e.Attempted(9500)
	require.Equal(t, timer.Hops{
		Path: timer.PathDirect, DispatchedMS: 8000, ClaimedMS: 8100,
		WaitedFor: timer.WaitLimits, WaitedMS: 9500 - 1005,
	}, e.Hops(9999))
	require.Zero(t, e.Fire.WaitingSinceMS, "the attempt ended it")

	e.DeferFor(timer.WaitBreaker, 10_000) // before the second attempt
	require.EqualValues(t, 10_000, e.DeferredSince(timer.WaitBreaker))
	e.EndDeferral(10_500)
	require.Equal(t, timer.WaitLimits, e.Fire.WaitedFor, "of the first attempt")
}

// TestDeferralsEndShortWaits checks that a fire that is deferred no longer waits for a worker.
func TestDeferralsEndShortWaits(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromTask, 600)
	e.WaitFor(timer.WaitWorker, 1000)
	e.DeferFor(timer.WaitLimits, 1002)
	e.Attempted(4000)
	require.Equal(t, timer.WaitLimits, e.Hops(4000).WaitedFor)
	require.EqualValues(t, 4000-1002, e.Hops(4000).WaitedMS)
}

func TestAnotherDeferralBegins(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromTask, 600)
	e.DeferFor(timer.WaitLimits, 1000)
	e.DeferFor(timer.WaitBreaker, 5000)
	require.EqualValues(t, 5000, e.DeferredSince(timer.WaitBreaker))
	before := e.Waits()
	e.DeferFor(timer.WaitLimits, 6000)
	e.SetWaits(before)
	require.EqualValues(t, 5000, e.DeferredSince(timer.WaitBreaker), "it did not wait")
	e.Attempted(6000)
	require.Equal(t, timer.WaitLimits, e.Hops(6000).WaitedFor)
	require.EqualValues(t, 4000, e.Hops(6000).WaitedMS)
}

// TestEarlierClaimsAreNotGuessed checks that the wait before an attempt of an earlier claim is what
// the row says, without its length.
func TestEarlierClaimsAreNotGuessed(t *testing.T) {
	t.Parallel()
	f := due
	f.Attempt, f.WaitedFor = 1, timer.WaitLimits
	e := claimed(t, f, task, FromTask, 600)
	e.WaitFor(timer.WaitWorker, 1000)
	e.Attempted(2000)
	require.Equal(t, timer.WaitLimits, e.Hops(2000).WaitedFor)
	require.Zero(t, e.Hops(2000).WaitedMS)

	f.WaitingSinceMS = 700 // of the second attempt
	e = claimed(t, f, task, FromTask, 800)
	e.Attempted(2000)
	require.Equal(t, timer.WaitUnknown, e.Hops(2000).WaitedFor)
}

// TestAnEarlierOwnerIsKnown checks that a fire found with another session as its owner says so,
// whichever question found it.
func TestAnEarlierOwnerIsKnown(t *testing.T) {
	t.Parallel()
	set, epoch := New(10, inflighttest.NeverSlow), inflighttest.Epoch(t)
	for owner, paths := range map[timer.ID]map[timer.Path]timer.Path{
		0: {
			timer.PathSlice: timer.PathSlice, timer.PathOverdue: timer.PathOverdue,
			timer.PathOrder: timer.PathOrder,
		},
		epoch.ID: {timer.PathOwnClaim: timer.PathOwnClaim},
		epoch.ID + 1: {
			timer.PathOrphaned: timer.PathOrphaned, timer.PathOverdue: timer.PathOrphaned,
			timer.PathOrder: timer.PathOrphaned, timer.PathOwnClaim: timer.PathOrphaned,
		},
	} {
		for path, want := range paths {
			f := due
			f.Owner = owner
			found := Arrivals([]timer.Fire{f}, path)
			es, _, err := set.Reserve(t.Context(), epoch, found, FromOrder, 0)
			require.NoError(t, err)
			require.Equal(t, want, es[0].Hops(0).Path, "%s of %d", path, owner)
			set.Remove(es...)
		}
	}
}

func TestLowPriorityTasksWaitOnTheirTopic(t *testing.T) {
	t.Parallel()
	e := claimed(t, due, task, FromLowTask, 1700)
	e.Attempted(1710)
	require.Equal(t, timer.WaitLow, e.Hops(1710).WaitedFor)
	require.EqualValues(t, 700, e.Hops(1710).WaitedMS, "from its run time")
	e = claimed(t, due, timer.Hops{Path: timer.PathOverdue}, FromLatePoll, 1700)
	e.Attempted(1710)
	require.Equal(t, timer.WaitNothing, e.Hops(1710).WaitedFor)
}
