package inflight

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

// TestCatchUpLeavesRoomForOnTimeFires checks that late fires in flight are bounded, however much
// room there is.
func TestCatchUpLeavesRoomForOnTimeFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, epoch := New(100*maxLate, inflighttest.NeverSlow), new(session.Epoch)
		fires := make([]Arrival, 2*maxLate)
		for i := range fires {
			fires[i].Fire.FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
		}
		late, _, err := h.Reserve(t.Context(), epoch, fires[:maxLate], FromLowTask, 1<<40)
		require.NoError(t, err)
		require.Len(t, late, maxLate)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = h.Reserve(ctx, epoch, fires[maxLate:maxLate+1], FromLowTask, 1<<40)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		present, _, err := h.Reserve(
			t.Context(),
			epoch,
			fires[maxLate:maxLate+10],
			FromTask,
			1<<40,
		)
		require.NoError(t, err)
		require.Len(t, present, 10)

		go func() {
			time.Sleep(time.Second)
			h.CallStarted(present[0])
			h.CallStarted(late[0])
			h.CallStarted(late[0])
		}()
		began := time.Now()
		more, _, err := h.Reserve(
			t.Context(),
			epoch,
			fires[maxLate+10:maxLate+11],
			FromLowTask,
			1<<40,
		)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		h.Remove(append(late, more...)...)
		require.Zero(t, h.late, "each was counted once")
	})
}

// TestPolledLateFiresAreBounded checks that late fires which were polled take no more than all of the
// set and a batch, that few of them wait for their calls, and that no poll waits for room.
func TestPolledLateFiresAreBounded(t *testing.T) {
	t.Parallel()
	const batch = 500
	for most, want := range map[int]int{1200: 1400, 100 * maxLate: 900 + maxLate} {
		h, epoch := New(most, inflighttest.NeverSlow), new(session.Epoch)
		fires := make([]Arrival, 900+10*batch)
		for i := range fires {
			fires[i].Fire.FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
		}
		_, _, err := h.Reserve(t.Context(), epoch, fires[:900], FromTask, 1<<40)
		require.NoError(t, err)
		for part := range slices.Chunk(fires[900:], batch) {
			_, _, err = h.Reserve(t.Context(), epoch, part, FromLatePoll, 1<<40)
		}
		require.ErrorIs(t, err, errFull)
		require.Equal(t, want, h.Len())
	}
}

// TestNoRoomWhileResultsAreSlow checks that while results are written more slowly than calls end, no
// more fires are claimed than may wait for long, and that claims then go on. Excepted are fires for
// which others in flight wait, and what a poll was put off for long for.
func TestNoRoomWhileResultsAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		h, epoch := New(1000, slow.Load), new(session.Epoch)
		fires := make([]Arrival, 130)
		for i := range fires {
			fires[i].Fire.FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
		}
		require.Equal(t, 1000/CrowdedShare, h.Room())
		require.NotZero(t, h.LateRoom())
		slow.Store(true)
		require.NotZero(t, h.Room())
		require.NotZero(t, h.LateRoom())
		_, _, err := h.Reserve(t.Context(), epoch, fires[5:], FromTask, 0)
		require.NoError(t, err)
		require.Zero(t, h.Room())
		require.Zero(t, h.LateRoom())
		_, _, err = h.Reserve(t.Context(), epoch, fires[:1], FromLatePoll, 1<<40)
		require.NoError(t, err, "put off for long before")
		es, _, err := h.Reserve(t.Context(), epoch, fires[1:2], FromOrder, 1<<40)
		require.NoError(t, err)
		require.Len(t, es, 1)

		go func() {
			time.Sleep(time.Second)
			h.Remove(es...) // results are written, but still too few
			time.Sleep(time.Second)
			slow.Store(false)
			h.Wake()
		}()
		began := time.Now()
		es, _, err = h.Reserve(t.Context(), epoch, fires[2:3], FromTask, 1<<40)
		require.NoError(t, err)
		require.Len(t, es, 1)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// TestRoomToWait checks that fires may wait for long only while twice as many would not crowd the
// set.
func TestRoomToWait(t *testing.T) {
	t.Parallel()
	h, epoch := New(80, inflighttest.NeverSlow), new(session.Epoch)
	fires := make([]Arrival, 21)
	for i := range fires {
		fires[i].Fire.FireID = timer.FireID{Timer: timer.ID(i + 1), DueMS: 1}
	}
	for n, want := range map[int]struct{ roomy, crowded bool }{
		9: {true, false}, 10: {false, false}, 20: {false, false}, 21: {false, true},
	} {
		es, _, err := h.Reserve(t.Context(), epoch, fires[:n], FromTask, 1<<40)
		require.NoError(t, err)
		require.Equal(t, want.roomy, h.Roomy(), n)
		require.Equal(t, want.crowded, h.Crowded(), n)
		h.Remove(es...)
	}
}

// TestTaskOfUnconfirmedClaimIsRedelivered checks that until a claim without a task is answered, an
// arriving task is not acknowledged, because it alone carries the fire.
func TestTaskOfUnconfirmedClaimIsRedelivered(t *testing.T) {
	t.Parallel()
	for _, source := range []Source{FromUnconfirmed, FromPoll, FromLatePoll} {
		requireTaskRedelivered(t, source)
	}
}

func requireTaskRedelivered(t *testing.T, source Source) {
	t.Helper()
	h, epoch := New(10, inflighttest.NeverSlow), inflighttest.Epoch(t)
	fires := Arrivals([]timer.Fire{
		{FireID: timer.FireID{Timer: 1, DueMS: 1}},
		{FireID: timer.FireID{Timer: 2, DueMS: 1}},
	}, timer.PathUnknown)
	byOther, _, err := h.Reserve(t.Context(), epoch, fires[:1], FromTask, 1<<40)
	require.NoError(t, err)
	require.Len(t, byOther, 1)

	doubtful, again, err := h.Reserve(
		t.Context(),
		epoch,
		[]Arrival{fires[0], fires[1], fires[1]},
		source,
		1<<40,
	)
	require.NoError(t, err)
	require.Len(t, doubtful, 1, "the first is in flight, and its task is not acknowledged")
	require.Empty(t, again)
	fresh, again, err := h.Reserve(t.Context(), epoch, fires, FromTask, 1<<40)
	require.NoError(t, err)
	require.Empty(t, fresh)
	require.Equal(t, []int{1}, again)

	h.Confirmed(doubtful, 1)
	fresh, again, err = h.Reserve(t.Context(), epoch, fires, FromTask, 1<<40)
	require.NoError(t, err)
	require.Empty(t, fresh)
	require.Empty(t, again)
}

// TestLargeBodiesFillTheSet checks that fires with large bodies leave no room for more long before
// they are too many, and that those of one definition count once.
func TestLargeBodiesFillTheSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, epoch := New(250_000, inflighttest.NeverSlow), new(session.Epoch)
		body := strings.Repeat("x", 1<<20)
		ids := timer.ID(0)
		reserve := func(n int) (es []*Entry, err error) {
			t.Helper()
			fires := make([]Arrival, n)
			for i := range fires {
				ids++
				fires[i].Fire.FireID = timer.FireID{Timer: ids, DueMS: 1}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			es, _, err = h.Reserve(ctx, epoch, fires, FromTask, 0)
			return es, err
		}
		load := func(n int, of func() *timer.Definition) []*Entry {
			t.Helper()
			es, err := reserve(n)
			require.NoError(t, err)
			for _, e := range es {
				e.Def = of()
			}
			h.Loaded(es...)
			h.Loaded(es...) // counts nothing twice
			return es
		}
		another := func() *timer.Definition {
			return &timer.Definition{Target: timer.Target{Body: body}}
		}
		one := another()
		same := load(1000, func() *timer.Definition { return one })
		require.True(t, h.Roomy())

		load(31, another)
		require.False(t, h.Roomy())
		require.False(t, h.Crowded())
		load(33, another)
		require.True(t, h.Crowded())
		require.Zero(t, h.Room())
		require.Positive(t, h.LateRoom())
		load(64, another)
		require.Zero(t, h.LateRoom())
		require.False(t, h.Full())
		last := load(127, another)
		require.True(t, h.Full())
		_, err := reserve(1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		require.InDelta(t, 1, h.Used(), 0.1)
		for _, e := range last {
			h.AttemptStarted(e) // calls that hang
		}
		require.False(t, h.Full())
		h.Loaded(last...) // for another attempt
		require.True(t, h.Full())

		h.Remove(same[1:]...)
		require.True(t, h.Full())
		go func() {
			time.Sleep(time.Second)
			h.Remove(same[0])
		}()
		_, err = reserve(1)
		require.NoError(t, err)
		require.False(t, h.Full())
		h.RemoveEpoch(epoch)
		require.Zero(t, h.bodies)
		require.Empty(t, h.large)
		require.True(t, h.Roomy())
	})
}
