package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// InsertOutcomes inserts outcomes and attempts, and keeps rows that are there: a repeated call inserts
// the same.
func (s *Rows) InsertOutcomes(
	ctx context.Context, c sqldb.Runner, outcomes []timer.Outcome, attempts []timer.Attempt,
) error {
	sorted := slices.Clone(outcomes)
	slices.SortFunc(sorted, func(a, b timer.Outcome) int {
		return cmp.Or(
			cmp.Compare(a.FinishedMS, b.FinishedMS),
			cmp.Compare(a.Timer, b.Timer),
			timer.CompareFires(a.Fire, b.Fire),
		)
	})
	const into = "INSERT INTO outcomes (" + OutcomeColumns + ") VALUES "
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, sorted, into) {
		for i := range part {
			addOutcome(q, i == 0, &part[i])
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.OnConflictNothing("series")),
		); err != nil {
			return err
		}
		if err := s.insertFailures(ctx, c, part); err != nil {
			return err
		}
	}
	return s.InsertAttempts(ctx, c, attempts)
}

// Finished returns which of the fires have an outcome.
func (s *Rows) Finished(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.FireID,
) (map[timer.FireID]bool, error) {
	return s.FinishedBy(ctx, c, ids, 0)
}

// FinishedBy returns which of the fires have an outcome that the session recorded; 0 is any
// session.
func (s *Rows) FinishedBy(
	ctx context.Context, c sqlx.QueryerContext, ids []timer.FireID, session timer.ID,
) (map[timer.FireID]bool, error) {
	done := map[timer.FireID]bool{}
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt(
			"SELECT " + sqldb.FireKey + " FROM outcomes" + s.db.Dialect.ByTimer + " WHERE (timer_id,due_ms) IN (" + s.db.Dialect.Tuples,
		)
		for i, id := range part {
			q.Row(i == 0, int64(id.Timer), id.DueMS)
		}
		if q.Add(")"); session != 0 {
			q.Add(" AND owner=").Int(int64(session))
		}
		var rows []sqldb.FireIDRow
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		for _, r := range rows {
			done[r.FireID()] = true
		}
	}
	return done, nil
}

// Withdraw deletes the outcomes of those fires that were ended as superseded before they were due: by
// the store, or by an executor without a call. The caller has the rows of their timers locked, has
// found the fires not open by a locking read, and opens them again. What ends such a fire has its row
// locked, so it comes before all of this. Repeated afterwards by its executor, it is lost.
func (s *Rows) Withdraw(ctx context.Context, c sqldb.Runner, ids []timer.FireID) error {
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt(
			"SELECT finished_ms," + sqldb.FireKey + " FROM outcomes" + s.db.Dialect.ByTimer +
				" WHERE (timer_id,due_ms) IN (" + s.db.Dialect.Tuples,
		)
		for i, id := range part {
			q.Row(i == 0, int64(id.Timer), id.DueMS)
		}
		q.Add(") AND series=0 AND finished_ms<due_ms AND (attempts=0 OR owner=").
			Int(int64(store.SystemSession)).
			Add(") AND reason=").Bind(string(timer.ReasonSuperseded))
		var rows []struct {
			sqldb.FireIDRow
			FinishedMS int64 `db:"finished_ms"`
		}
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		keys := make([]OutcomeKey, len(rows))
		for i, r := range rows {
			keys[i] = OutcomeKey{r.FinishedMS, r.FireID()}
		}
		q = sqldb.Stmt(s.db.Dialect.DeleteFrom("outcomes", "PRIMARY") + " WHERE ")
		q = InKeys(q, s.db.Dialect, keys)
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// FiresOf returns the fires of outcomes.
func FiresOf(outcomes []timer.Outcome) []timer.Fire {
	fires := make([]timer.Fire, len(outcomes))
	for i := range outcomes {
		fires[i] = outcomes[i].Fire
	}
	return fires
}
