package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// owned creates n past fires of one timer, ten seconds apart, and claims them.
func (s *setup) owned(session timer.ID, n int) (timer.Timer, []timer.Fire) {
	s.t.Helper()
	base := s.nowMS() - time.Hour.Milliseconds()
	var dues []int64
	for i := range int64(n) {
		dues = append(dues, base+i*10_000)
	}
	item := s.newTimer()
	item.Activate = true
	made := s.create(item, planAt(0, dues...))
	fires := s.claim(session, made.Fires)
	require.Len(s.t, fires, n)
	return made.Timer, fires
}

// acquireSlot requests the slot for one fire, which asks again in five minutes.
func (s *setup) acquireSlot(session timer.ID, f timer.Fire, c timer.Concurrency) store.SlotResult {
	s.t.Helper()
	f.RunAtMS, f.Bucket = s.nowMS()+5*timer.MinuteMS, 0
	out, err := s.st().
		AcquireSlots(s.t.Context(), session, []store.SlotRequest{{Fire: f, Concurrency: c}})
	require.NoError(s.t, err)
	require.Len(s.t, out, 1)
	return out[0]
}

// finish records a delivery that passes the slot on.
func (s *setup) finish(session timer.ID, f timer.Fire) (lost []timer.FireID, made []timer.Fire) {
	s.t.Helper()
	o := delivered(f, s.nowMS())
	o.Serial = true
	lost, made, err := s.st().Record(s.t.Context(), session, []timer.Outcome{o}, nil)
	require.NoError(s.t, err)
	return lost, made
}

func (s *setup) running(id timer.ID) timer.FireID {
	s.t.Helper()
	states, err := s.st().States(s.t.Context(), []timer.ID{id})
	require.NoError(s.t, err)
	return states[0].Running
}

func fullSlotsSkip(t *testing.T, s *setup) {
	session, other := s.session(), s.session()
	tm, fires := s.owned(session, 3)
	skip := timer.Concurrency{Policy: timer.ConcurrencySkip}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[0], skip).SlotVerdict)
	require.Equal(t, fires[0].FireID, s.running(tm.ID))
	require.Equal(
		t,
		store.SlotGranted,
		s.acquireSlot(session, fires[0], skip).SlotVerdict,
		"as often as it asks",
	)
	require.Equal(t, store.SlotNotOwned, s.acquireSlot(other, fires[1], skip).SlotVerdict)
	require.Equal(t, store.SlotSkipped, s.acquireSlot(session, fires[1], skip).SlotVerdict)
	require.Equal(
		t,
		store.SlotGranted,
		s.acquireSlot(session, fires[1], timer.Concurrency{}).SlotVerdict,
		"allow asks nobody",
	)
	lost, made := s.finish(session, fires[0])
	require.Empty(t, lost)
	require.Empty(t, made)
	require.Zero(t, s.running(tm.ID))
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[2], skip).SlotVerdict)

	// A slot is free if its fire is gone without passing it on.
	lost, _, err := s.st().
		Record(t.Context(), session, []timer.Outcome{delivered(fires[2], s.nowMS())}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[1], skip).SlotVerdict)
}

func fullSlotsQueue(t *testing.T, s *setup) {
	session, other := s.session(), s.session()
	tm, fires := s.owned(session, 6)
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll, MaxQueue: 3}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[1], queue).SlotVerdict)
	waits := map[int]timer.Fire{}
	for _, i := range []int{3, 2, 4} {
		got := s.acquireSlot(session, fires[i], queue)
		require.Equal(t, store.SlotQueued, got.SlotVerdict)
		rec, err := s.st().Fire(t.Context(), "app", fires[i].FireID)
		require.NoError(t, err)
		require.Equal(t, *rec.Open, got.Fire)
		require.Equal(t, timer.FireWaiting, got.Fire.State)
		require.Zero(t, got.Fire.Owner)
		require.EqualValues(t, 1, got.Fire.Rev)
		require.Greater(t, got.Fire.RunAtMS, s.nowMS())
		waits[i] = got.Fire
		require.Equal(
			t,
			store.SlotNotOwned,
			s.acquireSlot(session, fires[i], queue).SlotVerdict,
			"it is not the session's any more",
		)
	}
	require.Equal(t, store.SlotQueueFull, s.acquireSlot(session, fires[5], queue).SlotVerdict)
	// One asks again, and keeps its place in the queue.
	again := s.claim(other, []timer.Fire{waits[2]})
	require.Len(t, again, 1)
	got := s.acquireSlot(other, again[0], queue)
	require.Equal(t, store.SlotQueued, got.SlotVerdict)
	require.EqualValues(t, 2, got.Fire.Rev)

	_, made := s.finish(session, fires[1])
	require.Equal(t, ids(fires[2:3]), ids(made), "the first in order of due")
	require.EqualValues(t, 3, made[0].Rev)
	require.Equal(t, timer.FireReady, made[0].State)
	require.InDelta(t, s.nowMS(), made[0].RunAtMS, 10_000)
	require.Equal(t, fires[2].FireID, s.running(tm.ID))
	lost, repeated := s.finish(session, fires[1])
	require.Empty(t, lost)
	require.Equal(t, made, repeated, "nobody has claimed it yet")
	won := s.claim(other, made)
	require.Len(t, won, 1)
	_, repeated = s.finish(session, fires[1])
	require.Empty(t, repeated)
	require.Equal(t, store.SlotGranted, s.acquireSlot(other, won[0], queue).SlotVerdict)
	// A fire in the queue is recorded without having the slot. It leaves the queue, and the slot
	// stays where it is.
	held := s.claim(session, []timer.Fire{waits[3]})
	_, made = s.finish(session, held[0])
	require.Empty(t, made)
	// The first fire in the queue is claimed and about to ask. It gets the slot, and no other fire
	// is released.
	held = s.claim(session, []timer.Fire{waits[4]})
	require.Len(t, held, 1)
	_, made = s.finish(other, won[0])
	require.Empty(t, made)
	require.Equal(t, fires[4].FireID, s.running(tm.ID))
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, held[0], queue).SlotVerdict)
	_, made = s.finish(session, held[0])
	require.Empty(t, made)
	require.Zero(t, s.running(tm.ID))

	one := timer.Concurrency{Policy: timer.ConcurrencyQueueOne, MaxQueue: 9}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[0], one).SlotVerdict)
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, fires[5], one).SlotVerdict)
	_, more := s.owned(session, 1)
	require.Equal(
		t,
		store.SlotGranted,
		s.acquireSlot(session, more[0], one).SlotVerdict,
		"another timer's turn is another",
	)
}

func fullSlotsAreReplaced(t *testing.T, s *setup) {
	session := s.session()
	tm, fires := s.owned(session, 4)
	cancel := timer.Concurrency{Policy: timer.ConcurrencyCancelPrevious}
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[1], cancel).SlotVerdict)
	before, err := s.st().LastChange(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[2], cancel).SlotVerdict)
	changes, err := s.st().Changes(t.Context(), before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, fires[2].FireID, changes[0].State.Running)
	require.Equal(t, store.SlotReplaced, s.acquireSlot(session, fires[1], cancel).SlotVerdict)
	require.Equal(t, store.SlotReplaced, s.acquireSlot(session, fires[0], cancel).SlotVerdict)
	s.finish(session, fires[1])
	require.Equal(
		t,
		fires[2].FireID,
		s.running(tm.ID),
		"the one that lost the turn does not hand it on",
	)
	s.finish(session, fires[2])
	require.Zero(t, s.running(tm.ID))
	fires[0].Attempt = 1
	require.Equal(
		t,
		store.SlotReplaced,
		s.acquireSlot(session, fires[0], cancel).SlotVerdict,
		"it waited for its next attempt while a later one ran and ended",
	)
	fires[0].Attempt = 0
	require.Equal(
		t,
		store.SlotGranted,
		s.acquireSlot(session, fires[0], cancel).SlotVerdict,
		"the later one ended before this one was attempted",
	)
	fires[0].Attempt = 1
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[0], cancel).SlotVerdict)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[3], cancel).SlotVerdict)
}

func replacedFiresStayReplaced(t *testing.T, s *setup) {
	session := s.session()
	_, fires := s.owned(session, 3)
	cancel := timer.Concurrency{Policy: timer.ConcurrencyCancelPrevious}
	verdict := func(i int) store.SlotVerdict {
		t.Helper()
		return s.acquireSlot(session, fires[i], cancel).SlotVerdict
	}
	require.Equal(t, store.SlotGranted, verdict(1))
	fires[1].Attempt = 1 // it waits for its next attempt
	require.Equal(t, store.SlotGranted, verdict(1), "it has the slot between its attempts")
	require.Equal(t, store.SlotGranted, verdict(2))
	s.finish(session, fires[2])
	require.Equal(t, store.SlotGranted, verdict(0), "the later one ended before its first attempt")
	require.Equal(t, store.SlotReplaced, verdict(1), "while the one that is due earlier runs")
	s.finish(session, fires[0])
	require.Equal(t, store.SlotReplaced, verdict(1), "after the one that is due earlier")
}

// requestedFiresWait: whatever the policy and however many there are, a requested fire waits for the
// one that runs, and takes no place from those of the schedule.
func requestedFiresWait(t *testing.T, s *setup) {
	for name, c := range map[string]struct {
		concurrency timer.Concurrency
		scheduled   store.SlotVerdict // of two fires of the schedule, the last one
	}{
		"skip":      {timer.Concurrency{Policy: timer.ConcurrencySkip}, store.SlotSkipped},
		"queue_one": {timer.Concurrency{Policy: timer.ConcurrencyQueueOne}, store.SlotQueueFull},
		"queue_all": {
			timer.Concurrency{Policy: timer.ConcurrencyQueueAll, MaxQueue: 1}, store.SlotQueueFull,
		},
	} {
		session := s.session()
		tm, fires := s.owned(session, 3)
		requested := s.requested(session, tm.ID, fires[0].DueMS-10, 3)
		require.Equal(
			t, store.SlotGranted, s.acquireSlot(session, fires[0], c.concurrency).SlotVerdict, name,
		)
		for range 2 { // they ask again
			for i, f := range requested {
				got := s.acquireSlot(session, f, c.concurrency)
				require.Equal(t, store.SlotQueued, got.SlotVerdict, name)
				require.Equal(t, timer.FireWaiting, got.Fire.State)
				require.Zero(t, got.Fire.Owner)
				again := s.claim(session, []timer.Fire{got.Fire})
				require.Len(t, again, 1)
				requested[i] = again[0]
			}
		}
		_ = s.acquireSlot(session, fires[1], c.concurrency)
		require.Equal(
			t, c.scheduled, s.acquireSlot(session, fires[2], c.concurrency).SlotVerdict, name,
		)
		for _, f := range append(fires[:1:1], requested[:2]...) {
			s.finish(session, f)
		}
		require.Equal(t, requested[2].FireID, s.running(tm.ID), "in order of due")
		s.finish(session, requested[2])
	}

	cancel := timer.Concurrency{Policy: timer.ConcurrencyCancelPrevious}
	session := s.session()
	tm, fires := s.owned(session, 3)
	earlier := s.requested(session, tm.ID, fires[1].DueMS-10, 1)[0]
	later := s.requested(session, tm.ID, fires[1].DueMS+10, 2)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[1], cancel).SlotVerdict)
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, earlier, cancel).SlotVerdict)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, later[0], cancel).SlotVerdict)
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, later[1], cancel).SlotVerdict)
	require.Equal(t, store.SlotReplaced, s.acquireSlot(session, fires[1], cancel).SlotVerdict)
	s.finish(session, later[0])
	require.Equal(t, earlier.FireID, s.running(tm.ID))
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, fires[2], cancel).SlotVerdict)
}

// requestedFiresPassDeferredOnes: a fire that failed, and whose timer is no longer active, holds up
// no requested fire. It waits for its turn when it is back, whatever the policy.
func requestedFiresPassDeferredOnes(t *testing.T, s *setup) {
	for _, policy := range []timer.ConcurrencyPolicy{
		timer.ConcurrencySkip, timer.ConcurrencyQueueOne, timer.ConcurrencyQueueAll,
	} {
		for _, deferred := range []bool{true, false} {
			c := timer.Concurrency{Policy: policy}
			session := s.session()
			tm, fires := s.owned(session, 2)
			failed := fires[0]
			require.Equal(t, store.SlotGranted, s.acquireSlot(session, failed, c).SlotVerdict)
			failed.Attempt = 1
			requested := s.requested(session, tm.ID, failed.DueMS+10, 2)
			require.Equal(t, store.SlotQueued, s.acquireSlot(session, requested[0], c).SlotVerdict)
			s.pause(tm, "", 0, noFires)
			if deferred {
				_, err := s.st().Defer(t.Context(), session, []store.Deferral{deferral(failed)})
				require.NoError(t, err)
				rec, err := s.st().Fire(t.Context(), "app", requested[0].FireID)
				require.NoError(t, err)
				require.LessOrEqual(t, rec.Open.RunAtMS, s.nowMS(), "it asks again at once")
			} else { // it waits for its next attempt
				failed.RunAtMS = s.nowMS() + time.Hour.Milliseconds()
				_, err := s.st().Release(t.Context(), session, []timer.Fire{failed}, nil)
				require.NoError(t, err)
			}
			requested[0] = s.claimAgain(session, requested[0])
			got := s.acquireSlot(session, requested[0], c)
			require.Equal(t, store.SlotGranted, got.SlotVerdict)
			require.Equal(t, requested[0].FireID, s.running(tm.ID))
			got = s.acquireSlot(session, requested[1], c)
			require.Equal(t, store.SlotQueued, got.SlotVerdict)

			s.setStatus(s.timer(tm.ID), timer.StatusActive, noFires)
			failed = s.claimAgain(session, failed)
			failed.Attempt = 1
			require.Equal(
				t,
				store.SlotQueued,
				s.acquireSlot(session, failed, c).SlotVerdict,
				policy,
			)
			s.finish(session, requested[0])
			require.Equal(t, failed.FireID, s.running(tm.ID), "in order of due")
		}
	}
}

// requestedFiresAskAtAPause: a fire waits between two attempts when its timer is paused or becomes
// inactive. The first requested one may take its slot from then on, and asks for it at once.
func requestedFiresAskAtAPause(t *testing.T, s *setup) {
	c := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
	for _, status := range []timer.Status{timer.StatusPaused, timer.StatusInactive} {
		session := s.session()
		tm, fires := s.owned(session, 2)
		failed := fires[0]
		require.Equal(t, store.SlotGranted, s.acquireSlot(session, failed, c).SlotVerdict)
		failed.Attempt, failed.RunAtMS = 1, s.nowMS()+time.Hour.Milliseconds()
		_, err := s.st().Release(t.Context(), session, []timer.Fire{failed}, nil)
		require.NoError(t, err)
		requested := s.requested(session, tm.ID, failed.DueMS+10, 2)
		for i := range requested {
			got := s.acquireSlot(session, requested[i], c)
			require.Equal(t, store.SlotQueued, got.SlotVerdict)
		}
		s.setStatus(tm, status, noFires)
		for i := range requested {
			rec, err := s.st().Fire(t.Context(), "app", requested[i].FireID)
			require.NoError(t, err)
			require.Equal(t, i == 0, rec.Open.RunAtMS <= s.nowMS(), "only the first one asks")
		}
		requested[0] = s.claimAgain(session, requested[0])
		require.Equal(t, store.SlotGranted, s.acquireSlot(session, requested[0], c).SlotVerdict)
	}
}

// requestedFiresWaitForAccepted: a call that is under way keeps the slot while the timer is not
// active, and so does, with cancel_previous, a fire that is due later: it would be cancelled.
func requestedFiresWaitForAccepted(t *testing.T, s *setup) {
	for policy, state := range map[timer.ConcurrencyPolicy]timer.FireState{
		timer.ConcurrencyQueueAll:       timer.FireAccepted,
		timer.ConcurrencySkip:           timer.FireAsyncFailed,
		timer.ConcurrencyCancelPrevious: timer.FireReady,
	} {
		c := timer.Concurrency{Policy: policy}
		session := s.session()
		tm, fires := s.owned(session, 2)
		holder := fires[1]
		require.Equal(t, store.SlotGranted, s.acquireSlot(session, holder, c).SlotVerdict)
		holder.Attempt, holder.State = 1, state
		s.pause(tm, "", 0, noFires)
		_, err := s.st().Defer(t.Context(), session, []store.Deferral{deferral(holder)})
		require.NoError(t, err)
		requested := s.requested(session, tm.ID, holder.DueMS-10, 1)[0]
		require.Equal(t, store.SlotQueued, s.acquireSlot(session, requested, c).SlotVerdict, policy)
	}
}

// deferredFiresGiveTheirSlotOn: the first fire in the queue gets the slot of one that is deferred
// before its first attempt.
func deferredFiresGiveTheirSlotOn(t *testing.T, s *setup) {
	c := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
	session := s.session()
	tm, fires := s.owned(session, 2)
	first, second := fires[0], fires[1]
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, first, c).SlotVerdict)
	requested := s.requested(session, tm.ID, second.DueMS+10, 2)
	requested[0].RunAtMS = s.nowMS() + 1e6
	for _, f := range []timer.Fire{second, requested[0], requested[1]} {
		require.Equal(t, store.SlotQueued, s.acquireSlot(session, f, c).SlotVerdict)
	}
	s.pause(tm, "", 0, noFires)
	second = s.claimAgain(session, second)
	kept, err := s.st().
		Defer(t.Context(), session, []store.Deferral{deferral(first), deferral(second)})
	require.NoError(t, err)
	require.Empty(t, kept)
	require.Equal(t, requested[0].FireID, s.running(tm.ID))
	rec, err := s.st().Fire(t.Context(), "app", requested[0].FireID)
	require.NoError(t, err)
	require.Equal(t, timer.FireReady, rec.Open.State)
	require.LessOrEqual(t, rec.Open.RunAtMS, s.nowMS(), "it does not wait to ask again")
	got := s.claimAgain(session, requested[0])
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, got, c).SlotVerdict)
	s.finish(session, got)
	require.Equal(t, requested[1].FireID, s.running(tm.ID))
}

// claimAgain claims a fire as it is stored now.
func (s *setup) claimAgain(session timer.ID, f timer.Fire) timer.Fire {
	s.t.Helper()
	rec, err := s.st().Fire(s.t.Context(), "app", f.FireID)
	require.NoError(s.t, err)
	require.NotNil(s.t, rec.Open)
	claimed := s.claim(session, []timer.Fire{*rec.Open})
	require.Len(s.t, claimed, 1)
	return claimed[0]
}

// requested adds n fires of a series that ends at an instant, and claims them.
func (s *setup) requested(session, id timer.ID, dueMS int64, n int) []timer.Fire {
	s.t.Helper()
	fires := make([]timer.Fire, n)
	for i := range fires {
		at := dueMS + int64(i-n+1)
		fires[i] = timer.Fire{
			FireID:  timer.FireID{Timer: id, DueMS: at, Series: int64(id) + dueMS},
			RunAtMS: at, Cause: timer.CauseRedrive,
		}
	}
	made, err := s.st().AddFires(s.t.Context(), "app", id, fires)
	require.NoError(s.t, err)
	claimed := s.claim(session, made)
	require.Len(s.t, claimed, n)
	slices.SortFunc(claimed, timer.CompareFires)
	return claimed
}

func oneCatchUp(t *testing.T, s *setup) {
	tm, other := s.create(s.newTimer(), noFires).Timer, s.create(s.newTimer(), noFires).Timer
	request := func(requests ...store.CatchUpRequest) []bool {
		t.Helper()
		run, err := s.st().CatchUp(t.Context(), requests)
		require.NoError(t, err)
		return run
	}
	late := func(due, to int64) store.CatchUpRequest {
		return store.CatchUpRequest{FireID: timer.FireID{Timer: tm.ID, DueMS: due}, ToMS: to}
	}
	require.Equal(t, []bool{false, true, true}, func() []bool {
		first := request(late(1000, 5000))
		require.Equal(t, []bool{true}, first)
		return request(
			late(2000, 6000),
			late(1000, 7000),
			store.CatchUpRequest{FireID: timer.FireID{Timer: other.ID, DueMS: 1500}, ToMS: 5000},
		)
	}())
	require.Equal(
		t,
		[]bool{false},
		request(late(5000, 9000)),
		"up to where it was covered, included",
	)
	require.Equal(t, []bool{false}, request(late(500, 9000)))
	require.Equal(
		t,
		[]bool{true, false},
		request(late(5001, 9000), late(6000, 9000)),
		"not covered: it is the next",
	)
	require.Equal(t, []bool{true}, request(late(5001, 9000)))
	jittered := late(5002, 9500)
	jittered.PlannedMS = 9001
	require.Equal(t, []bool{true}, request(jittered), "it was to run after what is covered")
	run, err := s.st().
		CatchUp(t.Context(), []store.CatchUpRequest{{FireID: timer.FireID{Timer: tm.ID, DueMS: 5500, Series: 7}, ToMS: 9000}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, run, "a requested fire does not belong to the schedule")

	slow := s.create(s.newTimer(), noFires).Timer
	asked := func(due int64) store.CatchUpRequest {
		return store.CatchUpRequest{
			FireID:  timer.FireID{Timer: slow.ID, DueMS: due},
			ToMS:    2000,
			GraceMS: 60_000,
		}
	}
	require.Equal(t, []bool{true}, request(asked(1000)))
	require.Equal(
		t,
		[]bool{false},
		request(asked(s.nowMS()-65_000)),
		"it covers what was late when the store answered",
	)
	require.Equal(t, []bool{true}, request(asked(s.nowMS()-55_000)))

	third := s.create(s.newTimer(), noFires).Timer
	won := make([]bool, 10)
	s.together(len(won), func(ctx context.Context, i int, st store.Store) error {
		requests := []store.CatchUpRequest{
			{FireID: timer.FireID{Timer: third.ID, DueMS: int64(1000 + i)}, ToMS: 5000},
		}
		for range 3 {
			run, err := st.CatchUp(ctx, requests)
			if err != nil {
				return err
			}
			won[i] = run[0]
		}
		return nil
	})
	n := 0
	for _, is := range won {
		if is {
			n++
		}
	}
	require.Equal(t, 1, n)
}

// unknownPolicyIsRefused checks that a policy of a newer release is not taken for a known one, and
// that the other requests of the call change nothing.
func unknownPolicyIsRefused(t *testing.T, s *setup) {
	session := s.session()
	_, fires := s.owned(session, 2)
	requests := []store.SlotRequest{
		{Fire: fires[0], Concurrency: timer.Concurrency{Policy: timer.ConcurrencySkip}},
		{Fire: fires[1], Concurrency: timer.Concurrency{Policy: "of_tomorrow"}},
	}
	_, err := s.st().AcquireSlots(t.Context(), session, requests)
	requireCode(t, timer.CodeInvalid, err)
	got := s.acquireSlot(session, fires[1], timer.Concurrency{Policy: timer.ConcurrencySkip})
	require.Equal(t, store.SlotGranted, got.SlotVerdict, "the other has no slot")
}
