package timers

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Keep keeps PurgeTimers from removing ended one-shots to which fires were added: it postpones their
// last expansion, which plans nothing more. The caller has the timers' rows locked.
func (s *Rows) Keep(ctx context.Context, c sqldb.Runner, byID map[timer.ID]*timer.Timer) error {
	var ended []timer.ID
	for _, t := range byID {
		if store.EndedOneShot(t) {
			ended = append(ended, t.ID)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return err
	}
	againMS := nowMS + store.AddedFireRetention.Milliseconds()
	return s.SetEach(
		ctx,
		c,
		ended,
		[]string{"expand_at_ms"},
		func(timer.ID, int) int64 { return againMS },
	)
}

// Remove deletes timers with all that belongs to them. The caller has their rows locked, and they
// have no open fires.
func (s *Rows) Remove(ctx context.Context, c sqldb.Runner, gone []*timer.Timer) error {
	var ids []timer.ID
	var attributes []Attribute
	var uses []CalendarUse
	for _, t := range gone {
		ids = append(ids, t.ID)
		if t.Status != timer.StatusDeleted { // a deletion has removed them
			used, had, err := s.References(ctx, c, t)
			if err != nil {
				return err
			}
			attributes, uses = append(attributes, had...), append(uses, used...)
		}
	}
	if err := s.DeleteAttributes(ctx, c, attributes); err != nil {
		return err
	}
	if err := s.DeleteUses(ctx, c, uses); err != nil {
		return err
	}
	for _, table := range []struct{ name, id string }{
		{"timer_versions", "timer_id"},
		{"inactivities", "timer_id"},
		{"deferred_fires", "timer_id"},
		{"slot_queue", "timer_id"},
		{"replans", "timer_id"},
		{"timers", "id"},
	} {
		for part := range sqldb.Batches(ids) {
			q := sqldb.Stmt(s.db.Dialect.DeleteFrom(table.name, "PRIMARY") + " WHERE " + table.id).
				IDList(part)
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
		}
	}
	return nil
}
