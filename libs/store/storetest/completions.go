package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// acceptedAgo is how long ago, in ms, a fire was called that its receiver accepted.
const acceptedAgo = 500

// accepted releases a fire that its receiver accepted at its next attempt, with a timeout of an
// hour, and returns its present row.
func (s *setup) accepted(session timer.ID, f timer.Fire) timer.Fire {
	s.t.Helper()
	now := s.nowMS()
	f.State, f.RunAtMS, f.FirstLatenessMS = timer.FireAccepted, now+time.Hour.Milliseconds(), 7
	f.TargetBits |= 5
	f.WaitedFor = timer.WaitLow
	f.Attempt++
	a := attempt(f, f.Attempt, now-acceptedAgo)
	a.StatusCode, a.Error = 202, ""
	released, err := s.st().Release(s.t.Context(), session, []timer.Fire{f}, []timer.Attempt{a})
	require.NoError(s.t, err)
	require.Len(s.t, released, 1)
	return released[0]
}

func (s *setup) complete(c store.Completion) store.CompletionResult {
	s.t.Helper()
	out, err := s.st().Complete(s.t.Context(), "app", c)
	require.NoError(s.t, err)
	return out
}

func completed(f timer.Fire) store.Completion {
	return store.Completion{FireID: f.FireID, Attempt: f.Attempt}
}

func completeDelivers(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	fires := s.claim(session, s.fires(4, s.nowMS()))
	f := s.accepted(session, fires[0])
	early := completed(f)
	early.Attempt = 2
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionTooEarly},
		s.complete(early),
		"that attempt is not made yet",
	)
	late := completed(f)
	late.Attempt = 0
	require.Equal(t, store.CompletionResult{State: store.CompletionTooLate}, s.complete(late))
	request := completed(f)
	request.FinishedMS = s.nowMS() - 20
	require.Equal(t, store.CompletionResult{State: store.CompletionAccepted}, s.complete(request))
	rec, err := s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.Nil(t, rec.Open)
	o := rec.Outcome
	require.Equal(t, request.FinishedMS, o.FinishedMS)
	want := delivered(f, request.FinishedMS)
	want.LatenessMS, want.StatusCode, want.Hops.WaitedFor = 7, 202, timer.WaitLow
	require.Equal(t, plain(want), plain(*o))
	require.Equal(t, store.SystemSession, o.Owner)
	require.Len(t, rec.Attempts, 1)
	require.Equal(t, store.CompletionResult{State: store.CompletionRepeated}, s.complete(request))
	fail := completed(f)
	fail.Failed = &timer.Attempt{Error: "no", Failure: timer.FailureStatus}
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionTooLate},
		s.complete(fail),
		"it is over",
	)
	require.Equal(t, store.CompletionResult{State: store.CompletionTooLate}, s.complete(early))

	// It is in flight, and not recorded as accepted.
	wait := completed(fires[1])
	wait.Attempt = 1
	require.Equal(t, store.CompletionResult{State: store.CompletionTooEarly}, s.complete(wait))
	retried := fires[1]
	retried.State, retried.Attempt = timer.FireRetrying, 1
	lost, err := s.st().
		RecordAttempts(ctx, session, []timer.Fire{retried}, []timer.Attempt{attempt(retried, 1, s.nowMS())})
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionTooLate},
		s.complete(wait),
		"that attempt failed",
	)

	// The timeout of this fire was claimed and no outcome is written. It can be completed, and its
	// owner loses it.
	f = s.accepted(session, fires[2])
	won := s.claim(session, []timer.Fire{f})
	require.Len(t, won, 1)
	require.EqualValues(t, 5, won[0].TargetBits, "read back")
	request = completed(f)
	request.FinishedMS = s.nowMS() - time.Hour.Milliseconds()
	require.Equal(t, store.CompletionAccepted, s.complete(request).State)
	rec, err = s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.InDelta(
		t,
		s.nowMS(),
		rec.Outcome.FinishedMS,
		10_000,
		"by the store's clock where the caller's is far off",
	)
	won[0].State = timer.FireRetrying
	released, err := s.st().Release(ctx, session, won, nil)
	require.NoError(t, err)
	require.Empty(t, released)
	lost, _ = s.record(session, delivered(won[0], s.nowMS()))
	require.Len(t, lost, 1)

	_, err = s.st().Complete(ctx, "other", request)
	requireCode(t, timer.CodeNotFound, err)
	request.DueMS = 1
	_, err = s.st().Complete(ctx, "app", request)
	requireCode(t, timer.CodeNotFound, err)
}

// oneTargetCompletes has a fire that a third target accepted, as the first one had an earlier attempt.
func oneTargetCompletes(t *testing.T, s *setup) {
	session := s.session()
	f := s.claim(session, s.fires(1, s.nowMS()))[0]
	f.TargetBits = timer.TargetCompletes << 2
	f = s.accepted(session, f)
	other := completed(f)
	other.Target = timer.TargetCompletes
	require.Equal(t, store.CompletionResult{State: store.CompletionTooLate}, s.complete(other))
	other.Failed = &timer.Attempt{Error: "no", Failure: timer.FailureAsync}
	require.Equal(t, store.CompletionResult{State: store.CompletionTooLate}, s.complete(other))
	own := completed(f)
	own.Target = timer.TargetCompletes << 2
	require.Equal(t, store.CompletionAccepted, s.complete(own).State)
}

// completionWaits completes a fire that was called again since the completion arrived.
func completionWaits(t *testing.T, s *setup) {
	session := s.session()
	f := s.accepted(session, s.claim(session, s.fires(1, s.nowMS()))[0])
	request := completed(f)
	request.FinishedMS = s.nowMS() - 2*acceptedAgo
	require.Equal(t, store.CompletionAccepted, s.complete(request).State)
	rec, err := s.st().Fire(t.Context(), "app", f.FireID)
	require.NoError(t, err)
	require.Equal(
		t,
		rec.Attempts[0].EndMS(),
		rec.Outcome.FinishedMS,
		"not before the attempt that it completes",
	)
}

func failedCompletionReleases(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	f := s.accepted(session, s.claim(session, s.fires(1, s.nowMS()))[0])
	request := completed(f)
	request.Failed = &timer.Attempt{
		StartMS:    s.nowMS() - 30,
		DurationMS: 30,
		Error:      "the till is closed",
		Failure:    timer.FailureAsync,
		StatusCode: 409,
	}
	got := s.complete(request)
	require.Equal(t, store.CompletionAccepted, got.State)
	require.Len(t, got.Fires, 1)
	rec, err := s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	back := *rec.Open
	require.Equal(t, back, got.Fires[0])
	require.InDelta(t, s.nowMS(), back.RunAtMS, 10_000)
	require.Equal(t, timer.FireAsyncFailed, back.State)
	require.Equal(t, f.Attempt, back.Attempt)
	require.Equal(t, f.Rev+1, back.Rev)
	require.EqualValues(t, 7, back.FirstLatenessMS)
	require.EqualValues(t, 5, back.TargetBits)
	require.Zero(t, back.Owner)
	require.Len(t, rec.Attempts, 2)
	want := *request.Failed
	want.FireID, want.N = f.FireID, f.Attempt
	for i := range rec.Attempts {
		// It is a millisecond longer if the acceptance ended at the same time.
		rec.Attempts[i].DurationMS = want.DurationMS
	}
	require.Contains(t, rec.Attempts, want)
	again := s.complete(request)
	require.Equal(t, store.CompletionRepeated, again.State)
	require.Equal(t, got.Fires, again.Fires, "nobody has claimed it yet")
	require.Empty(t, s.claim(session, []timer.Fire{f}), "the timeout's window entry is out of date")
	won := s.claim(session, got.Fires)
	require.Equal(t, store.CompletionResult{State: store.CompletionRepeated}, s.complete(request))
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionTooLate},
		s.complete(completed(f)),
	)
	lost, _ := s.record(session, delivered(won[0], s.nowMS()))
	require.Empty(t, lost)
	require.Equal(t, store.CompletionResult{State: store.CompletionRepeated}, s.complete(request))
}

// completeStartsOthers completes fires whose outcomes start other fires.
func completeStartsOthers(t *testing.T, s *setup) {
	session := s.session()
	tm, fires := s.owned(session, 2)
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueOne}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[0], queue).SlotVerdict)
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, fires[1], queue).SlotVerdict)
	f := s.accepted(session, fires[0])
	require.Equal(t, f.FireID, s.running(tm.ID), "an accepted fire keeps its slot")
	request := completed(f)
	got := s.complete(request)
	require.Equal(t, store.CompletionAccepted, got.State)
	require.Equal(t, ids(fires[1:]), ids(got.Fires))
	require.Equal(t, fires[1].FireID, s.running(tm.ID))
	again := s.complete(request)
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionRepeated, Fires: got.Fires},
		again,
	)

	tm, first := s.delayed(session, 2)
	f = s.accepted(session, first)
	next := s.withSuccessor(f)
	request = completed(f)
	request.Next, request.FinishedMS = next.Next, next.FinishedMS
	got = s.complete(request)
	require.Len(t, got.Fires, 1)
	require.Equal(t, next.Next.FireID, got.Fires[0].FireID)
	after, err := s.st().Timer(t.Context(), "app", tm.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, after.FiresCreated)
	again = s.complete(request)
	require.Equal(
		t,
		store.CompletionResult{State: store.CompletionRepeated, Fires: got.Fires},
		again,
	)
}

func concurrentCompletions(t *testing.T, s *setup) {
	const fires, calls = 12, 6
	session, other := s.session(), s.session()
	var all []timer.Fire
	for _, f := range s.claim(session, s.fires(fires, s.nowMS())) {
		all = append(all, s.accepted(session, f))
	}
	var done [fires]atomic.Int64
	var mu sync.Mutex
	ended := map[timer.FireID]bool{} // by the timeout
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		if i == 0 {
			// The timeout claims all of them and records them as failed.
			won, err := st.Claim(ctx, other, all)
			if err != nil {
				return err
			}
			for _, f := range won {
				o := delivered(f, f.RunAtMS)
				o.Kind = timer.Failed
				lost, _, err := st.Record(ctx, other, []timer.Outcome{o}, nil)
				if err != nil {
					return err
				}
				mu.Lock()
				ended[f.FireID] = len(lost) == 0
				mu.Unlock()
			}
			return nil
		}
		for n, f := range all {
			got, err := st.Complete(ctx, "app", completed(f))
			if err != nil {
				return err
			}
			if got.State == store.CompletionAccepted {
				done[n].Add(1)
			}
		}
		return nil
	})
	for n, f := range all {
		history, err := s.st().History(t.Context(), "app", f.Timer, timer.FireID{}, 10)
		require.NoError(t, err)
		require.Len(t, history, 1)
		want := int64(1)
		if ended[f.FireID] {
			want = 0
		}
		require.Equal(t, want, done[n].Load(), "one of them wins")
	}
}
