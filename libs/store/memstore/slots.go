package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// AcquireSlots decides the requests one by one.
func (s *Store) AcquireSlots(
	_ context.Context,
	session timer.ID,
	requests []store.SlotRequest,
) ([]store.SlotResult, error) {
	for i := range requests {
		if p := requests[i].Concurrency.Policy; !p.Known() {
			return nil, timer.Invalid("concurrency.policy", fmt.Sprintf("unknown: %q", p))
		}
	}
	defer s.lock()()
	out := make([]store.SlotResult, len(requests))
	for i := range requests {
		f := s.owned(session, &requests[i].Fire)
		t := s.timers[requests[i].Fire.Timer]
		if f == nil || t == nil {
			out[i].SlotVerdict = store.SlotNotOwned
			continue
		}
		out[i] = s.enter(t, f, &requests[i])
	}
	return out, nil
}

func (s *Store) enter(t *row, f *timer.Fire, request *store.SlotRequest) store.SlotResult {
	policy := request.Concurrency.Resolved()
	holder := s.fires[t.slot]
	active := t.Status == timer.StatusActive || t.pauseIsOver(request.NowMS)
	taken := holder != nil && (t.slot == f.FireID || !request.TakesFrom(holder, active))
	if request.ReplacedBy(t.lastRunning()) {
		return store.SlotResult{SlotVerdict: store.SlotReplaced}
	}
	if at := request.NotBeforeMS(
		t.lastCallEndedMS,
	); (!taken || t.slot == f.FireID) &&
		at > request.NowMS {
		gaveUp := t.slot == f.FireID
		if gaveUp {
			t.slot, t.lastSlot = timer.FireID{}, timer.FireID{}
		}
		delete(t.queue, f.FireID)
		f.WaitingSinceMS, f.WaitedFor = request.Fire.WaitingSinceMS, request.Fire.WaitedFor
		s.release(f, at, 0, timer.FireReady)
		if gaveUp {
			s.promoteNext(t)
		}
		return store.SlotResult{SlotVerdict: store.SlotQueued, Fire: *f}
	}
	switch {
	case policy.Policy == timer.ConcurrencyAllow, taken && t.slot == f.FireID:
		return store.SlotResult{SlotVerdict: store.SlotGranted}
	case !taken:
		t.slot = f.FireID
		delete(t.queue, f.FireID)
		return store.SlotResult{SlotVerdict: store.SlotGranted}
	}
	if request.WaitsBehind(t.slot) {
		return s.wait(t, f, request)
	}
	switch policy.Policy {
	case timer.ConcurrencyQueueOne:
		return s.waitInRoom(t, f, request, 1)
	case timer.ConcurrencyQueueAll:
		return s.waitInRoom(t, f, request, policy.MaxQueue)
	case timer.ConcurrencyCancelPrevious:
		if timer.CompareFireIDs(f.FireID, t.slot) < 0 {
			return store.SlotResult{SlotVerdict: store.SlotReplaced}
		}
		t.slot = f.FireID
		s.log(s.nowMS(), t, nil)
		return store.SlotResult{SlotVerdict: store.SlotGranted}
	case timer.ConcurrencyAllow, timer.ConcurrencySkip: // allow is granted above
	}
	return store.SlotResult{SlotVerdict: store.SlotSkipped}
}

// lastRunning returns the fire that has the slot, or had it last.
func (t *row) lastRunning() timer.FireID {
	if t.slot.Timer == 0 {
		return t.lastSlot
	}
	return t.slot
}

// waitInRoom releases a fire of the schedule into the queue, if there is room.
func (s *Store) waitInRoom(
	t *row, f *timer.Fire, request *store.SlotRequest, most int,
) store.SlotResult {
	waiting := 0
	for id := range t.queue {
		switch {
		case s.fires[id] == nil:
			delete(t.queue, id)
		case id.Series == 0:
			waiting++
		}
	}
	if !t.queue[f.FireID] && waiting >= most {
		return store.SlotResult{SlotVerdict: store.SlotQueueFull}
	}
	return s.wait(t, f, request)
}

func (s *Store) wait(t *row, f *timer.Fire, request *store.SlotRequest) store.SlotResult {
	t.queue[f.FireID] = true
	g := &request.Fire
	s.release(f, g.RunAtMS, g.Bucket, timer.FireWaiting)
	f.Attempt, f.FirstLatenessMS = g.Attempt, g.FirstLatenessMS
	f.WaitingSinceMS, f.WaitedFor = g.WaitingSinceMS, g.WaitedFor
	return store.SlotResult{SlotVerdict: store.SlotQueued, Fire: *f}
}

// release releases an open fire for dispatch.
func (s *Store) release(f *timer.Fire, runMS int64, bucket int32, state timer.FireState) {
	s.remove(f)
	f.RunAtMS, f.Bucket, f.State, f.Owner = runMS, bucket, state, 0
	f.Rev++
	s.insert(f)
}

// firstInQueue returns the first fire in the queue, or the first requested one, or nil.
func (s *Store) firstInQueue(t *row, requested bool) (first *timer.Fire) {
	for id := range t.queue {
		f := s.fires[id]
		switch {
		case f == nil:
			delete(t.queue, id)
		case requested && id.Series == 0:
		case first == nil || timer.CompareFires(*f, *first) < 0:
			first = f
		}
	}
	return first
}

// wakeRequested lets the first requested fire in the queue ask for the slot again at once, because it
// may take the slot of a fire that waits between two attempts.
func (s *Store) wakeRequested(t *row, nowMS int64) {
	if next := s.firstInQueue(t, true); next != nil && next.Owner == 0 {
		s.release(next, nowMS, 0, next.State)
	}
}

// promoteNext gives a free slot to the first fire in the queue. It does not change a fire that a
// session owns.
func (s *Store) promoteNext(t *row) (made []timer.Fire) {
	if s.fires[t.slot] != nil {
		return nil
	}
	if t.slot.Timer != 0 {
		t.slot, t.lastSlot = timer.FireID{}, t.slot
	}
	first := s.firstInQueue(t, false)
	if first == nil {
		return nil
	}
	t.slot = first.FireID
	delete(t.queue, first.FireID)
	if first.Owner != 0 {
		return nil
	}
	s.release(first, s.nowMS(), 0, timer.FireReady)
	return []timer.Fire{*first}
}

// successor inserts the next fire of a fixed delay, if its timer still allows it. row is the ended
// fire as it was stored.
func (s *Store) successor(o *timer.Outcome, row *timer.Fire) (made []timer.Fire) {
	t := s.timers[o.Timer]
	n := o.Next
	if n == nil {
		return nil
	}
	version := max(n.Version, row.Version)
	if n.Timer != o.Timer || t.Status != timer.StatusActive ||
		max(n.Epoch, row.Epoch) != t.ActiveEpoch ||
		version < t.planVersion {
		return nil
	}
	// Perhaps an edit or an activation has left one. Only an edit has taken its count back.
	there := s.fires[n.FireID]
	ofThisPlan := there != nil && there.Version >= t.planVersion
	if ofThisPlan && there.Epoch >= t.ActiveEpoch {
		return nil
	}
	limit := t.versions[version].Schedule.MaxFires
	if !ofThisPlan && limit > 0 && t.FiresCreated >= limit {
		return nil
	}
	f := *n
	f.AppID, f.Version, f.Epoch, f.Rev, f.Owner, f.TargetBits = t.AppID, t.Version, t.ActiveEpoch, 0, 0, 0
	if !ofThisPlan {
		t.FiresCreated++
	}
	t.LastDueMS = f.DueMS
	if there == nil {
		s.withdraw(t, f.FireID)
		s.insert(&f)
		return []timer.Fire{f}
	}
	if s.move(there, &f) {
		return []timer.Fire{*there}
	}
	return nil
}

// CatchUp decides the requests one by one.
func (s *Store) CatchUp(_ context.Context, requests []store.CatchUpRequest) ([]bool, error) {
	defer s.lock()()
	run := make([]bool, len(requests))
	for i := range requests {
		a := &requests[i]
		t := s.timers[a.Timer]
		switch {
		case a.Series != 0 || t == nil || t.catchUpToMS != 0 && t.catchUpDueMS == a.DueMS:
			run[i] = true
		case !a.CoveredBy(t.catchUpToMS):
			t.catchUpDueMS, t.catchUpToMS = a.DueMS, a.CoversTo(s.nowMS())
			run[i] = true
		}
	}
	return run, nil
}

// unclaimed returns a fire that an earlier Record started, if nobody has claimed it since.
func (s *Store) unclaimed(id timer.FireID) []timer.Fire {
	if f := s.fires[id]; f != nil && f.Owner == 0 && f.Attempt == 0 && f.State == timer.FireReady {
		return []timer.Fire{*f}
	}
	return nil
}

// distinct removes repeated fires.
func distinct(fires []timer.Fire) []timer.Fire {
	slices.SortFunc(fires, timer.CompareFires)
	return slices.CompactFunc(fires, func(a, b timer.Fire) bool { return a.FireID == b.FireID })
}
