package scheduling

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/jobs"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// DueWork reads what is due in one statement. It locks nothing: another call may do the work
// between its answer and the caller's, which then finds none.
func (s *Scheduling) DueWork(ctx context.Context) (w store.DueWork, err error) {
	err = s.db.Read(
		ctx,
		"looking for work",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var row struct {
				Active    bool `db:"active"`
				Paused    bool `db:"paused"`
				Replans   bool `db:"replans"`
				Backfills bool `db:"backfills"`
				Jobs      bool `db:"jobs"`
			}
			q := sqldb.Stmt("SELECT EXISTS(SELECT 1")
			s.fromDueTimers(q, timers.RowActive).Add(") AS active,EXISTS(SELECT 1")
			s.fromDueTimers(q, timers.RowPaused).Add(") AS paused,EXISTS(SELECT 1")
			s.fromDueReplans(q).Add(") AS replans,EXISTS(SELECT 1")
			s.fromDueBackfills(q).Add(") AS backfills,EXISTS(SELECT 1")
			jobs.FromDue(q, s.db.Dialect).Add(") AS jobs")
			err := s.db.SelectOne(ctx, c, &row, q)
			w = store.DueWork{
				Timers:    row.Active || row.Paused,
				Replans:   row.Replans,
				Backfills: row.Backfills,
				Jobs:      row.Jobs,
			}
			return err
		},
	)
	return w, err
}

// fromDueTimers selects from the timers of a status that are due for expansion.
func (s *Scheduling) fromDueTimers(q *sqldb.Statement, status int64) *sqldb.Statement {
	return q.Add(" FROM timers" + s.db.Dialect.ByExpand + " WHERE status=").
		Int(status).
		Add(" AND expand_at_ms<=").
		NowMS(s.db.Dialect)
}

// fromDueReplans selects from the follow-ups of edits whose next page is due.
func (s *Scheduling) fromDueReplans(q *sqldb.Statement) *sqldb.Statement {
	return q.Add(" FROM replans WHERE next_page_ms<=").NowMS(s.db.Dialect)
}

// fromDueBackfills selects from the running backfills that are due for expansion.
func (s *Scheduling) fromDueBackfills(q *sqldb.Statement) *sqldb.Statement {
	return q.Add(" FROM backfills" + s.db.Dialect.ByExpand + " WHERE status=").
		Int(rowBackfillRunning).
		Add(" AND expand_at_ms<=").
		NowMS(s.db.Dialect)
}
