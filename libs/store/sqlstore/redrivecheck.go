package sqlstore

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

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
	for part := range batches(ids) {
		var rows []struct {
			ID     int64 `db:"id"`
			Status int64 `db:"status"`
		}
		q := stmt(
			"SELECT id,status FROM timers WHERE id",
		).idList(part).
			add(" AND app_id=").
			int(r.appID)
		if err := r.store.selectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for _, row := range rows {
			live[timer.ID(row.ID)] = row.Status != rowDeleted
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
	done, err := r.store.finished(ctx, c, r.q.Fires)
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
	d := r.store.dialect
	q := stmt("SELECT o." + strings.ReplaceAll(outcomeColumns, ",", ",o."))
	key := "o"
	switch {
	case len(r.q.Fires) > 0:
		q.add(
			" FROM outcomes o" + d.outcomesByTimer + " WHERE (o.timer_id,o.due_ms,o.series) IN (" + d.tuples,
		)
		for i, f := range r.q.Fires {
			q.row(i == 0, int64(f.Timer), f.DueMS, f.Series)
		}
		q.add(") AND o.app_id=").int(r.appID)
	case r.q.Timer != 0:
		q.add(" FROM outcomes o" + d.outcomesByTimer + " WHERE o.timer_id=").int(int64(r.q.Timer))
	default:
		key = "f"
		q.add(" FROM failed_outcomes f" + d.byPrimary + d.joinOrdered + "outcomes o" + d.byPrimary + " ON o.finished_ms=f.finished_ms AND o.timer_id=f.timer_id AND " +
			"o.due_ms=f.due_ms AND o.series=f.series WHERE f.app_id=").
			int(r.appID)
		// No fire finishes before it is due, except by a clock that is ahead.
		q.add(" AND f.finished_ms>=").int(r.q.FromMS - maxClockSkew.Milliseconds())
	}
	if r.q.Timer != 0 {
		q.add(" AND o.timer_id=").int(int64(r.q.Timer))
	}
	r.filter(q)
	order := []string{key + ".finished_ms", key + ".timer_id", key + ".due_ms", key + ".series"}
	if r.q.AfterFinishedMS != 0 {
		q.add(" AND ")
		d.keyAfter(
			q,
			order,
			[]int64{r.q.AfterFinishedMS, int64(r.q.After.Timer), r.q.After.DueMS, r.q.After.Series},
		)
	}
	var rows []outcomeRow
	q.add(" ORDER BY " + strings.Join(order, ",") + " LIMIT ").int(int64(r.q.Limit + 1))
	if err := r.store.selectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	if r.out.More = len(rows) > r.q.Limit; r.out.More {
		rows = rows[:r.q.Limit]
	}
	for i := range rows {
		out = append(out, rows[i].outcome())
	}
	return out, nil
}

// filter adds the conditions of the query.
func (r *redrive) filter(q *statement) {
	q.add(" AND o.kind='failed'")
	if r.q.FromMS != 0 {
		q.add(" AND o.due_ms>=").int(r.q.FromMS)
	}
	if r.q.ToMS != 0 {
		q.add(" AND o.due_ms<").int(r.q.ToMS)
	}
	if r.q.Failure != timer.FailureNone {
		q.add(" AND o.failure=").bind(string(r.q.Failure))
	}
	if !r.q.IncludeRedriven {
		q.add(" AND o.redrive_series IN (0,").int(r.series).add(")")
	}
	q.add(" AND EXISTS (SELECT 1 FROM timers t WHERE t.id=o.timer_id AND t.status<>").
		int(rowDeleted).
		add(")")
}

// lastErrors returns the last error text of each fire that has one. It reads along the index by
// timer, like TargetAttempts, and returns one row per fire, however many attempts there were.
func (s *Store) lastErrors(
	ctx context.Context,
	c sqlx.QueryerContext,
	failed []timer.Outcome,
) (map[timer.FireID]string, error) {
	last := make(map[timer.FireID]string, len(failed))
	if len(failed) == 0 {
		return last, nil
	}
	first := failed[0].DueMS
	for i := range failed {
		first = min(first, failed[i].DueMS)
	}
	const key = "timer_id,due_ms,series"
	q := stmt("SELECT " + key + ",error FROM (SELECT " + key + ",error,ROW_NUMBER() OVER (" +
		"PARTITION BY " + key + " ORDER BY attempt DESC,started_ms DESC,target DESC) AS place " +
		"FROM attempts" + s.dialect.byTimer + " WHERE finished_ms>=")
	q.int(first - maxClockSkew.Milliseconds()).add(" AND (" + key + ") IN (" + s.dialect.tuples)
	for i := range failed {
		q.row(i == 0, int64(failed[i].Timer), failed[i].DueMS, failed[i].Series)
	}
	var rows []struct {
		fireIDRow

		Error string `db:"error"`
	}
	q.add(") AND error<>'') a WHERE place=1")
	if err := s.selectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	for i := range rows {
		last[rows[i].id()] = rows[i].Error
	}
	return last, nil
}
