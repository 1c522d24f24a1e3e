package fires

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// queueOf returns the first fires of a timer's queue, in order of due. The caller has the timer's
// row locked, as for all access to queues.
func (s *Rows) queueOf(
	ctx context.Context,
	c sqlx.QueryerContext,
	id timer.ID,
	limit int,
) ([]timer.FireID, error) {
	return s.queued(ctx, c, queueStatement(id).
		Add(" ORDER BY timer_id,due_ms,series LIMIT ").Int(int64(limit)))
}

// withQueue returns those of the timers for whose slot a fire waits. Most have no queue, so callers
// with many timers need one statement.
func (s *Rows) withQueue(
	ctx context.Context, c sqlx.QueryerContext, ids []timer.ID,
) (queued []timer.ID, err error) {
	for part := range sqldb.Batches(ids) {
		var found []timer.ID
		q := sqldb.Stmt("SELECT DISTINCT timer_id FROM slot_queue" + s.db.Dialect.ByPrimary +
			" WHERE timer_id").IDList(part).Add(" ORDER BY timer_id")
		if err := s.db.SelectAll(ctx, c, &found, q); err != nil {
			return nil, err
		}
		queued = append(queued, found...)
	}
	return queued, nil
}

// requestedInQueue returns the first requested fires in a timer's queue, in order of due.
func (s *Rows) requestedInQueue(
	ctx context.Context, c sqlx.QueryerContext, id timer.ID, limit int,
) ([]timer.FireID, error) {
	return s.queued(ctx, c, queueStatement(id).
		Add(" AND series<>0 ORDER BY timer_id,due_ms,series LIMIT ").Int(int64(limit)))
}

// scheduledInQueue returns the fires of a timer's schedule in its queue: at most as many as may wait.
func (s *Rows) scheduledInQueue(
	ctx context.Context, c sqlx.QueryerContext, id timer.ID,
) ([]timer.FireID, error) {
	return s.queued(ctx, c, queueStatement(id).Add(" AND series=0 ORDER BY timer_id,due_ms,series"))
}

func queueStatement(id timer.ID) *sqldb.Statement {
	return sqldb.Stmt("SELECT timer_id,due_ms,series FROM slot_queue WHERE timer_id=").
		Int(int64(id))
}

func (s *Rows) queued(
	ctx context.Context, c sqlx.QueryerContext, q *sqldb.Statement,
) (ids []timer.FireID, err error) {
	var rows []sqldb.FireIDRow
	err = s.db.SelectAll(ctx, c, &rows, q)
	for _, r := range rows {
		ids = append(ids, r.FireID())
	}
	return ids, err
}

func (s *Fires) enqueue(ctx context.Context, c sqldb.Runner, ids []timer.FireID) error {
	for part := range sqldb.Batches(byTimer(ids)) {
		q := sqldb.Stmt("INSERT INTO slot_queue (timer_id,due_ms,series) VALUES ")
		for i, id := range part {
			q.Row(i == 0, int64(id.Timer), id.DueMS, id.Series)
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.OnConflictNothing("series")),
		); err != nil {
			return err
		}
	}
	return nil
}

func (s *Rows) dequeue(ctx context.Context, c sqldb.Runner, ids []timer.FireID) error {
	for part := range sqldb.Batches(byTimer(ids)) {
		q := sqldb.Stmt(
			s.db.Dialect.DeleteFrom(
				"slot_queue",
				"PRIMARY",
			) + " WHERE (timer_id,due_ms,series) IN (" + s.db.Dialect.Tuples,
		)
		for i, id := range part {
			q.Row(i == 0, int64(id.Timer), id.DueMS, id.Series)
		}
		if _, err := s.db.Exec(ctx, c, q.Add(")")); err != nil {
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
