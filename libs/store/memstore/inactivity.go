package memstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// deferredRun is the run_at that a deferred fire gets when its timer is active, if it still has the
// revision.
type deferredRun struct {
	runMS int64
	rev   int32
}

// pauseIsOver reports whether the end of the pause has passed and nobody has activated the timer
// yet.
func (t *row) pauseIsOver(nowMS int64) bool {
	return t.Status == timer.StatusPaused && t.PausedUntilMS > 0 && t.PausedUntilMS <= nowMS
}

// endStretch ends the present stretch of the timer, if there is one.
func (t *row) endStretch(atMS int64) {
	if n := len(t.inactive); n > 0 && t.InactiveSinceMS > 0 && t.Status != timer.StatusDeleted {
		last := &t.inactive[n-1]
		last.UntilMS = max(atMS, last.FromMS)
	}
}

// endPause activates a timer whose pause is over. The caller's change then finds it in the state
// that it has by the clock.
func (s *Store) endPause(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	if !t.pauseIsOver(nowMS) {
		return nil
	}
	fires := s.activate(t, plan, nowMS)
	s.log(nowMS, t, nil)
	return fires
}

// Inactivities returns the stretches in which timers were not active.
func (s *Store) Inactivities(
	_ context.Context,
	ids []timer.ID,
) (map[timer.ID][]timer.Inactivity, error) {
	defer s.lock()()
	all := make(map[timer.ID][]timer.Inactivity, len(ids))
	for _, id := range ids {
		if t := s.timers[id]; t != nil && len(t.inactive) > 0 {
			all[id] = slices.Clone(t.inactive)
		}
	}
	return all, nil
}

// Defer defers fires until their timers are active.
func (s *Store) Defer(
	_ context.Context,
	session timer.ID,
	fires []store.Deferral,
) (kept []timer.FireID, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	holders := map[*row]*timer.Fire{} // deferred fires that had the slot
	for i := range fires {
		d := &fires[i]
		t := s.timers[d.Fire.Timer]
		if t != nil && (t.Status == timer.StatusActive || t.Status == timer.StatusDeleted ||
			t.pauseIsOver(nowMS)) {
			kept = append(kept, d.Fire.FireID)
			continue
		}
		f := s.owned(session, &d.Fire)
		if f == nil || t == nil {
			continue
		}
		if t.deferred == nil {
			t.deferred = make(map[timer.FireID]deferredRun)
		}
		t.deferred[f.FireID] = deferredRun{d.Fire.RunAtMS, f.Rev + 1}
		if t.slot == f.FireID {
			holders[t] = f
		}
		delete(t.queue, f.FireID)
		s.moveTo(f, &timer.Fire{
			RunAtMS:         d.RunAtMS,
			State:           d.Fire.State,
			Attempt:         d.Fire.Attempt,
			FirstLatenessMS: d.Fire.FirstLatenessMS,
			TargetBits:      d.Fire.TargetBits,
			WaitingSinceMS:  d.Fire.WaitingSinceMS,
			WaitedFor:       d.Fire.WaitedFor,
		})
		f.Rev, f.Owner = f.Rev+1, 0
	}
	for t, f := range holders {
		if f.Attempt == 0 {
			t.slot, t.lastSlot = timer.FireID{}, timer.FireID{}
			s.promoteNext(t)
		} else {
			s.wakeRequested(t, nowMS)
		}
	}
	return kept, nil
}

// releaseDeferred restores the run_at of a timer's deferred fires.
func (s *Store) releaseDeferred(t *row) (released []timer.Fire) {
	for id, w := range t.deferred {
		f := s.fires[id]
		if f == nil || f.Owner != 0 || f.Rev != w.rev {
			continue
		}
		s.remove(f)
		f.RunAtMS, f.Bucket, f.Rev = min(f.RunAtMS, w.runMS), 0, f.Rev+1
		s.insert(f)
		released = append(released, *f)
	}
	t.deferred = nil
	slices.SortFunc(released, timer.CompareFires)
	return released
}
