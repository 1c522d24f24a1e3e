package fires

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// check returns not_found if a named timer or fire does not belong to the app.
func (r *redrive) check(ctx context.Context, c sqlx.QueryerContext) error {
	var ids []timer.ID
	if r.q.Timer != 0 {
		ids = append(ids, r.q.Timer)
	}
	for _, f := range r.q.Fires {
		ids = append(ids, f.Timer)
	}
	live := map[timer.ID]bool{} // false: the timer is deleted
	for part := range sqldb.Batches(ids) {
		var rows []struct {
			ID     int64 `db:"id"`
			Status int64 `db:"status"`
		}
		q := sqldb.Stmt(
			"SELECT id,status FROM timers WHERE id",
		).IDList(part).
			Add(" AND app_id=").
			Int(r.appID)
		if err := r.store.db.SelectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for _, row := range rows {
			live[timer.ID(row.ID)] = row.Status != timers.RowDeleted
		}
	}
	if r.q.Timer != 0 && !live[r.q.Timer] {
		return timer.NotFound("timer", r.q.Timer)
	}
	// Open fires come first: a fire that is recorded in between is found among the outcomes.
	open, err := r.store.stillOpen(ctx, c, append([]timer.FireID(nil), r.q.Fires...))
	if err != nil {
		return err
	}
	done, err := r.store.history.Finished(ctx, c, r.q.Fires)
	if err != nil {
		return err
	}
	for _, f := range r.q.Fires {
		_, isOpen := open[f]
		if _, is := live[f.Timer]; !is || !isOpen && !done[f] {
			return timer.NotFound("fire", f)
		}
	}
	return nil
}

// selectFailed selects failed outcomes, and sets where the page ends. It reads those that are named,
// or those that the scan examines.
func (r *redrive) selectFailed(
	ctx context.Context,
	c sqlx.QueryerContext,
) (out []timer.Outcome, err error) {
	if err := r.check(ctx, c); err != nil {
		return nil, err
	}
	q := sqldb.Stmt("SELECT o." + strings.ReplaceAll(history.OutcomeColumns, ",", ",o.") + " FROM ")
	key := "o"
	var end []history.OutcomeKeyRow
	if len(r.q.Fires) > 0 {
		r.fromNamed(q)
	} else {
		key = "f"
		if end, err = r.scanEnd(ctx, c); err != nil {
			return nil, err
		}
		r.fromScanned(q, end)
	}
	r.filter(q)
	var rows []history.OutcomeRow
	q.Add(" ORDER BY " + strings.Join(order(key), ",") + " LIMIT ").Int(int64(r.q.Limit + 1))
	if err := r.store.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	for i := range rows[:min(len(rows), r.q.Limit)] {
		out = append(out, rows[i].Outcome())
	}
	switch {
	case len(rows) > r.q.Limit:
		r.out.Next = store.PositionOf(&out[len(out)-1])
	case len(end) > 0:
		r.out.Next = end[0].Position()
	}
	return out, nil
}

// fromNamed reads the named fires.
func (r *redrive) fromNamed(q *sqldb.Statement) {
	d := r.store.db.Dialect
	q.Add(
		"outcomes o" + d.OutcomesByTimer + " WHERE (o.timer_id,o.due_ms,o.series) IN (" + d.Tuples,
	)
	for i, f := range r.q.Fires {
		q.Row(i == 0, int64(f.Timer), f.DueMS, f.Series)
	}
	q.Add(") AND o.app_id=").Int(r.appID)
	if after := r.q.After; after.FinishedMS != 0 {
		q.Add(" AND ")
		d.KeyAfter(q, order("o"), position(after))
	}
}

// fromScanned reads the failed outcomes of the app from the position up to the end of the scan. Those
// of one timer are read there, too: its history is not in order of position.
func (r *redrive) fromScanned(q *sqldb.Statement, end []history.OutcomeKeyRow) {
	d := r.store.db.Dialect
	q.Add("failed_outcomes f" + d.ByPrimary + d.JoinOrdered + "outcomes o" + d.ByPrimary +
		" ON o.finished_ms=f.finished_ms AND o.timer_id=f.timer_id AND " +
		"o.due_ms=f.due_ms AND o.series=f.series")
	r.begin(q, "f")
	if len(end) > 0 {
		// The range says the same again: not every optimizer sees it in the comparison.
		q.Add(" AND f.finished_ms<=").Int(end[0].FinishedMS).Add(" AND ")
		d.CompareInts(q, "<=", order("f"), position(end[0].Position()))
	}
}

// scanEnd returns the last key that the scan examines, none if it examines all.
func (r *redrive) scanEnd(
	ctx context.Context,
	c sqlx.QueryerContext,
) (end []history.OutcomeKeyRow, err error) {
	columns := strings.Join(order("k"), ",")
	q := sqldb.Stmt(
		"SELECT " + columns + " FROM failed_outcomes k" + r.store.db.Dialect.ByPrimary,
	)
	r.begin(q, "k")
	q.Add(" ORDER BY " + columns + " LIMIT 1 OFFSET ").Int(int64(r.q.ScanLimit - 1))
	err = r.store.db.SelectAll(ctx, c, &end, q)
	return end, err
}

// begin adds where the scan of failed_outcomes begins. No fire finishes before it is due, except by a
// clock that is ahead.
func (r *redrive) begin(q *sqldb.Statement, table string) {
	after := r.q.After
	q.Add(" WHERE " + table + ".app_id=").Int(r.appID).
		Add(" AND " + table + ".finished_ms>=").
		Int(max(r.q.FromMS-history.MaxClockSkew.Milliseconds(), after.FinishedMS))
	if after.FinishedMS != 0 {
		q.Add(" AND ")
		r.store.db.Dialect.KeyAfter(q, order(table), position(after))
	}
}

// order returns the columns of a position.
func order(table string) []string {
	return []string{
		table + ".finished_ms", table + ".timer_id", table + ".due_ms", table + ".series",
	}
}

func position(p store.OutcomePosition) []int64 {
	return []int64{p.FinishedMS, int64(p.Timer), p.DueMS, p.Series}
}

// filter adds the conditions of the query.
func (r *redrive) filter(q *sqldb.Statement) {
	q.Add(" AND o.kind='failed'")
	if r.q.Timer != 0 {
		q.Add(" AND o.timer_id=").Int(int64(r.q.Timer))
	}
	if r.q.FromMS != 0 {
		q.Add(" AND o.due_ms>=").Int(r.q.FromMS)
	}
	if r.q.ToMS != 0 {
		q.Add(" AND o.due_ms<").Int(r.q.ToMS)
	}
	if r.q.Failure != timer.FailureNone {
		q.Add(" AND o.failure=").Bind(string(r.q.Failure))
	}
	if !r.q.IncludeRedriven {
		q.Add(" AND o.redrive_series IN (0,").Int(r.series).Add(")")
	}
	if r.series != 0 {
		q.Add(" AND o.series<>").Int(r.series)
	}
	if r.q.BegunMS != 0 {
		q.Add(" AND (o.redrive_series=").Int(r.series).
			Add(" OR o.finished_ms<=").Int(r.q.BegunMS).Add(")")
	}
	q.Add(" AND EXISTS (SELECT 1 FROM timers t WHERE t.id=o.timer_id AND t.status<>").
		Int(timers.RowDeleted).
		Add(")")
}
