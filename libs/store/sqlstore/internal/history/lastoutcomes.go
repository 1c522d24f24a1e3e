package history

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// LastOutcomes reads the end of the index of outcomes for each timer.
func (s *Reader) LastOutcomes(
	ctx context.Context,
	ids []timer.ID,
) (last map[timer.ID]timer.Outcome, err error) {
	err = s.db.Read(
		ctx,
		"reading outcomes",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			last, err = s.history.LastOutcomes(ctx, c, ids, nowMS)
			return err
		},
	)
	return last, err
}

// LastOutcomes reads the outcomes at the latest due instants. An outcome that is recorded in between
// is found or not.
func (s *Rows) LastOutcomes(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.ID,
	nowMS int64,
) (map[timer.ID]timer.Outcome, error) {
	dues, err := s.LastDues(ctx, c, ids, nowMS)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id timer.ID) bool { return dues[id] == 0 })
	last := make(map[timer.ID]timer.Outcome, len(ids))
	for part := range sqldb.Batches(ids) {
		first := dues[part[0]]
		for _, id := range part {
			first = min(first, dues[id])
		}
		q := sqldb.Stmt(
			"SELECT " + OutcomeColumns + " FROM outcomes" + s.db.Dialect.ByTimer + " WHERE ",
		)
		finishedSince(q, s.db.Dialect, first, nowMS).
			Add("reason<>").Bind(string(timer.ReasonSuperseded)).
			Add(" AND (timer_id,due_ms) IN (" + s.db.Dialect.Tuples)
		for i, id := range part {
			q.Row(i == 0, int64(id), dues[id])
		}
		var rows []OutcomeRow
		if err := s.db.SelectAll(ctx, c, &rows, q.Add(")")); err != nil {
			return nil, err
		}
		for i := range rows {
			id := timer.ID(rows[i].Timer)
			if had, ok := last[id]; !ok || had.Series < rows[i].Series {
				last[id] = rows[i].Outcome()
			}
		}
	}
	return last, nil
}

// LastDues returns when the latest outcome of each timer was due, without superseded fires. Where
// outcomes have partitions, it reads the end of the index in each of them: first in those of the last
// day, and for timers that had no fire in it in all. An edit supersedes at most the fires that are
// expanded, so few entries are passed over.
func (s *Rows) LastDues(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.ID,
	nowMS int64,
) (map[timer.ID]int64, error) {
	last := make(map[timer.ID]int64, len(ids))
	sinces := []int64{0}
	if s.db.Dialect.Partitioned {
		sinces = []int64{nowMS - 24*time.Hour.Milliseconds(), 0}
	}
	for _, since := range sinces {
		// An outcome that is due later than since has not finished before it, so none is missed.
		ids = slices.DeleteFunc(
			slices.Clone(ids),
			func(id timer.ID) bool { return last[id] > since },
		)
		for part := range sqldb.Batches(ids) {
			var dues []struct {
				ID    int64         `db:"id"`
				DueMS sql.NullInt64 `db:"due_ms"`
			}
			q := sqldb.Stmt(
				"SELECT id,(SELECT o.due_ms FROM outcomes o" + s.db.Dialect.ByTimer + " WHERE ",
			)
			finishedSince(q, s.db.Dialect, since, nowMS).
				Add("o.timer_id=t.id AND o.reason<>").Bind(string(timer.ReasonSuperseded)).
				Add(" ORDER BY o.due_ms DESC LIMIT 1) AS due_ms FROM timers t" +
					s.db.Dialect.ByPrimary + " WHERE id").
				IDList(part)
			if err := s.db.SelectAll(ctx, c, &dues, q); err != nil {
				return nil, err
			}
			for _, d := range dues {
				if d.DueMS.Valid {
					last[timer.ID(d.ID)] = d.DueMS.Int64
				}
			}
		}
	}
	return last, nil
}

// finishedSince adds the condition that outcomes have finished since an instant at which they were
// due. It changes nothing about the result, but where outcomes have partitions by the day of
// finished_ms, the database does not read the others, of which there is one for each day that is
// kept and for some that come.
func finishedSince(q *sqldb.Statement, d *sqldb.Dialect, dueMS, nowMS int64) *sqldb.Statement {
	if !d.Partitioned {
		return q
	}
	return q.Add("finished_ms>=").Int(max(dueMS-MaxClockSkew.Milliseconds(), 0)).
		Add(" AND finished_ms<=").Int(nowMS + MaxClockSkew.Milliseconds()).Add(" AND ")
}
