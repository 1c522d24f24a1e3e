package sqlstore

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

// queueOf returns the first fires of a timer's queue, in order of due. The caller has the timer's
// row locked, as for all access to queues.
func (s *Store) queueOf(
	ctx context.Context,
	c sqlx.QueryerContext,
	id timer.ID,
	limit int,
) (ids []timer.FireID, err error) {
	var rows []fireIDRow
	err = s.selectAll(
		ctx,
		c,
		&rows,
		stmt("SELECT timer_id,due_ms,series FROM slot_queue WHERE timer_id=").int(int64(id)).
			add(" ORDER BY timer_id,due_ms,series LIMIT ").int(int64(limit)),
	)
	for _, r := range rows {
		ids = append(ids, r.id())
	}
	return ids, err
}

func (s *Store) enqueue(ctx context.Context, c runner, ids []timer.FireID) error {
	for part := range batches(byTimer(ids)) {
		q := stmt("INSERT INTO slot_queue (timer_id,due_ms,series) VALUES ")
		for i, id := range part {
			q.row(i == 0, int64(id.Timer), id.DueMS, id.Series)
		}
		if _, err := s.exec(ctx, c, q.add(s.dialect.onConflictNothing("series"))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) dequeue(ctx context.Context, c runner, ids []timer.FireID) error {
	for part := range batches(byTimer(ids)) {
		q := stmt(
			s.dialect.deleteFrom(
				"slot_queue",
				"PRIMARY",
			) + " WHERE (timer_id,due_ms,series) IN (" + s.dialect.tuples,
		)
		for i, id := range part {
			q.row(i == 0, int64(id.Timer), id.DueMS, id.Series)
		}
		if _, err := s.exec(ctx, c, q.add(")")); err != nil {
			return err
		}
	}
	return nil
}

// byTimer sorts ids in the order of slot_queue.
func byTimer(ids []timer.FireID) []timer.FireID {
	slices.SortFunc(ids, func(a, b timer.FireID) int {
		if a.Timer != b.Timer {
			return int(a.Timer - b.Timer)
		}
		return timer.CompareFireIDs(a, b)
	})
	return slices.Compact(ids)
}
