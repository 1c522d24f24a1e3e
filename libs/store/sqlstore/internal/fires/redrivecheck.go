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

// selectFailed selects failed outcomes, and finds out whether there are more than the limit. It
// reads failed_outcomes of the app or, if timers are named, their histories.
func (r *redrive) selectFailed(
	ctx context.Context,
	c sqlx.QueryerContext,
) (out []timer.Outcome, err error) {
	if err := r.check(ctx, c); err != nil {
		return nil, err
	}
	d := r.store.db.Dialect
	q := sqldb.Stmt("SELECT o." + strings.ReplaceAll(history.OutcomeColumns, ",", ",o."))
	key := "o"
	switch {
	case len(r.q.Fires) > 0:
		q.Add(
			" FROM outcomes o" + d.OutcomesByTimer + " WHERE (o.timer_id,o.due_ms,o.series) IN (" + d.Tuples,
		)
		for i, f := range r.q.Fires {
			q.Row(i == 0, int64(f.Timer), f.DueMS, f.Series)
		}
		q.Add(") AND o.app_id=").Int(r.appID)
	case r.q.Timer != 0:
		q.Add(" FROM outcomes o" + d.OutcomesByTimer + " WHERE o.timer_id=").Int(int64(r.q.Timer))
	default:
		key = "f"
		q.Add(" FROM failed_outcomes f" + d.ByPrimary + d.JoinOrdered + "outcomes o" + d.ByPrimary + " ON o.finished_ms=f.finished_ms AND o.timer_id=f.timer_id AND " +
			"o.due_ms=f.due_ms AND o.series=f.series WHERE f.app_id=").
			Int(r.appID)
		// No fire finishes before it is due, except by a clock that is ahead.
		q.Add(" AND f.finished_ms>=").Int(r.q.FromMS - history.MaxClockSkew.Milliseconds())
	}
	if r.q.Timer != 0 {
		q.Add(" AND o.timer_id=").Int(int64(r.q.Timer))
	}
	r.filter(q)
	order := []string{key + ".finished_ms", key + ".timer_id", key + ".due_ms", key + ".series"}
	if after := r.q.After; after.FinishedMS != 0 {
		q.Add(" AND ")
		d.KeyAfter(
			q,
			order,
			[]int64{after.FinishedMS, int64(after.Timer), after.DueMS, after.Series},
		)
	}
	var rows []history.OutcomeRow
	q.Add(" ORDER BY " + strings.Join(order, ",") + " LIMIT ").Int(int64(r.q.Limit + 1))
	if err := r.store.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	more := len(rows) > r.q.Limit
	for i := range rows[:min(len(rows), r.q.Limit)] {
		out = append(out, rows[i].Outcome())
	}
	if more {
		r.out.Next = store.PositionOf(&out[len(out)-1])
	}
	return out, nil
}

// filter adds the conditions of the query.
func (r *redrive) filter(q *sqldb.Statement) {
	q.Add(" AND o.kind='failed'")
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
