package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// PurgeTimers removes timers that ended. What is left of their history goes with them.
func (s *Store) PurgeTimers(_ context.Context, deleted, oneShots time.Duration) error {
	defer s.lock()()
	bounds := store.NewTimerBounds(s.nowMS(), deleted, oneShots)
	busy := map[timer.ID]bool{}
	for id := range s.fires {
		busy[id.Timer] = true
	}
	for _, b := range s.backfills {
		if b.Status == store.BackfillRunning {
			busy[b.Timer] = true
		}
	}
	gone := func(id timer.ID) bool { return s.timers[id] == nil }
	s.rows = slices.DeleteFunc(s.rows, func(t *row) bool {
		remove := !busy[t.ID] && bounds.Passed(&t.Timer)
		if remove {
			delete(s.timers, t.ID)
			maps.DeleteFunc(s.names, func(_ nameKey, named *row) bool { return named == t })
			delete(s.outcomes, t.ID)
		}
		return remove
	})
	s.backfills = slices.DeleteFunc(s.backfills, func(b *backfill) bool { return gone(b.Timer) })
	maps.DeleteFunc(
		s.attempts,
		func(id timer.FireID, _ []timer.Attempt) bool { return gone(id.Timer) },
	)
	maps.DeleteFunc(s.ended, func(id timer.FireID, _ timer.ID) bool { return gone(id.Timer) })
	return nil
}

// keep keeps PurgeTimers from removing an ended one-shot to which fires were added.
func (s *Store) keep(t *row) {
	if store.EndedOneShot(&t.Timer) {
		t.ExpandAtMS = s.nowMS() + store.AddedFireRetention.Milliseconds()
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
	}
}
