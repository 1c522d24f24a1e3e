package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func hopsAreKept(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	full := timer.Hops{
		Path: timer.PathSlice, DispatchedMS: now - 5000, ClaimedMS: now - 4000,
		WaitedFor: timer.WaitLimits, WaitedMS: 3000,
	}
	long := 40 * 24 * time.Hour.Milliseconds()
	fires := s.claim(session, s.fires(6, now))
	for i, c := range []struct{ given, kept timer.Hops }{
		{full, full},
		{timer.Hops{}, timer.Hops{}},
		{
			timer.Hops{Path: timer.PathOverdue, ClaimedMS: now - 7},
			timer.Hops{Path: timer.PathOverdue, ClaimedMS: now - 7},
		},
		{
			timer.Hops{Path: timer.PathDirect, DispatchedMS: now + 10, ClaimedMS: now + 5},
			timer.Hops{Path: timer.PathDirect, DispatchedMS: now, ClaimedMS: now},
		},
		{
			timer.Hops{Path: timer.PathSlice, DispatchedMS: now - long, ClaimedMS: now},
			timer.Hops{Path: timer.PathSlice, ClaimedMS: now},
		},
		{
			timer.Hops{
				Path: 255, ClaimedMS: now - long, WaitedFor: 255, WaitedMS: math.MaxInt64,
			},
			timer.Hops{Path: 255, WaitedFor: 255, WaitedMS: store.MaxWaitedMS},
		},
	} {
		o := delivered(fires[i], now)
		o.Hops = c.given
		for range 2 {
			lost, _, err := s.st().Record(t.Context(), session, []timer.Outcome{o}, nil)
			require.NoError(t, err)
			require.Empty(t, lost)
		}
		rec, err := s.st().Fire(t.Context(), "app", o.FireID)
		require.NoError(t, err)
		require.Equal(t, c.kept, rec.Outcome.Hops, "case %d", i)
	}
}

// waitsAreKept checks that what a fire waits for survives its releases and claims, and that the
// outcomes of the store itself have it.
func waitsAreKept(t *testing.T, s *setup) {
	ctx := t.Context()
	session, other := s.session(), s.session()
	now := s.nowMS()
	f := s.claim(session, s.fires(1, now))[0]
	require.Zero(t, f.WaitingSinceMS)
	require.Equal(t, timer.WaitUnknown, f.WaitedFor)
	f.State, f.WaitedFor, f.WaitingSinceMS = timer.FireDeferred, timer.WaitLimits, now-5
	released, err := s.st().Release(ctx, session, []timer.Fire{f}, nil)
	require.NoError(t, err)
	require.Len(t, released, 1)
	require.Equal(t, now-5, released[0].WaitingSinceMS)
	won := s.claim(other, released)
	require.Equal(t, now-5, won[0].WaitingSinceMS)
	require.Equal(t, timer.WaitLimits, won[0].WaitedFor)

	_, fires := s.owned(session, 2)
	one := timer.Concurrency{Policy: timer.ConcurrencyQueueAll, MaxQueue: 2}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[0], one).SlotVerdict)
	fires[1].WaitedFor, fires[1].WaitingSinceMS = timer.WaitTurn, now-9
	queued := s.acquireSlot(session, fires[1], one)
	require.Equal(t, store.SlotQueued, queued.SlotVerdict)
	require.Equal(t, now-9, queued.Fire.WaitingSinceMS)
	_, made := s.finish(session, fires[0])
	require.Len(t, made, 1)
	require.Equal(t, now-9, made[0].WaitingSinceMS, "it waits until it is called")
	require.Equal(t, timer.WaitTurn, made[0].WaitedFor)

	done := s.accepted(session, s.claim(session, s.fires(1, now))[0])
	require.Equal(t, store.CompletionAccepted, s.complete(store.Completion{
		FireID: done.FireID, Attempt: done.Attempt, FinishedMS: now,
	}).State)
	rec, err := s.st().Fire(ctx, "app", done.FireID)
	require.NoError(t, err)
	require.Equal(t, timer.Hops{WaitedFor: done.WaitedFor}, rec.Outcome.Hops)
}

func sessionsByID(t *testing.T, s *setup) {
	ctx := t.Context()
	alive, dead := s.session(), s.session()
	s.expireSession(dead)
	got, err := s.st().SessionsByID(ctx, []timer.ID{dead, alive, 1 << 50, alive})
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, one := range got {
		require.Equal(t, "test", one.Name)
		require.Equal(t, store.ExecutorSession, one.Kind)
		require.Equal(t, one.ID == dead, one.Ended)
	}
	got, err = s.st().SessionsByID(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, got)
}
