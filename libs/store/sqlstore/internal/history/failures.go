package history

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// insertFailures adds the failed outcomes of this transaction to failed_outcomes. Most batches have
// none and cost nothing here.
func (s *Rows) insertFailures(ctx context.Context, c sqldb.Runner, outcomes []timer.Outcome) error {
	var q *sqldb.Statement
	for i := range outcomes {
		o := &outcomes[i]
		if o.Kind != timer.Failed {
			continue
		}
		first := q == nil
		if first {
			q = sqldb.Stmt(
				"INSERT INTO failed_outcomes (app_id,finished_ms,timer_id,due_ms,series) VALUES ",
			)
		}
		q.Row(first, o.AppID, o.FinishedMS, int64(o.Timer), o.DueMS, o.Series)
	}
	if q == nil {
		return nil
	}
	_, err := s.db.Exec(ctx, c, q.Add(s.db.Dialect.OnConflictNothing("series")))
	return err
}

// OutcomeKey is the primary key of an outcome.
type OutcomeKey struct {
	finishedMS int64
	timer.FireID
}

// KeyOf returns the primary key of an outcome.
func KeyOf(o *timer.Outcome) OutcomeKey { return OutcomeKey{o.FinishedMS, o.FireID} }

// InKeys adds "(finished_ms,timer_id,due_ms,series) IN (…)". keys must not be empty.
func InKeys(q *sqldb.Statement, d *sqldb.Dialect, keys []OutcomeKey) *sqldb.Statement {
	const key = "finished_ms,timer_id,due_ms,series"
	if len(keys) == 1 {
		return q.EqualTo(
			key,
			keys[0].finishedMS,
			int64(keys[0].Timer),
			keys[0].DueMS,
			keys[0].Series,
		)
	}
	q.Add("(" + key + ") IN (" + d.Tuples)
	for i, k := range keys {
		q.Row(i == 0, k.finishedMS, int64(k.Timer), k.DueMS, k.Series)
	}
	return q.Add(")")
}
