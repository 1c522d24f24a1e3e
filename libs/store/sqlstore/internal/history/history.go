package history

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// History pages backwards through a timer's outcomes, also those of a deleted timer.
func (s *Reader) History(
	ctx context.Context, app string, id timer.ID, before timer.FireID, limit int,
) (out []timer.Outcome, err error) {
	if err := s.timers.CheckApp(ctx, app, id); err != nil {
		return nil, err
	}
	err = s.db.Read(
		ctx,
		"reading a timer's history",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := sqldb.Stmt(
				"SELECT " + OutcomeColumns + " FROM outcomes" + s.db.Dialect.ByTimer + " WHERE timer_id=",
			).Int(int64(id))
			if before != (timer.FireID{}) {
				q.Add(" AND due_ms<=").Int(before.DueMS).Add(" AND (due_ms<").Int(before.DueMS).
					Add(" OR series<").Int(before.Series).Add(")")
			}
			var rows []OutcomeRow
			if err := s.db.SelectAll(
				ctx,
				c,
				&rows,
				q.Add(" ORDER BY due_ms DESC,series DESC LIMIT ").Int(int64(limit)),
			); err != nil {
				return err
			}
			for _, r := range rows {
				out = append(out, r.Outcome())
			}
			return nil
		},
	)
	return out, err
}

// LastScheduled first finds the key in the index by timer, and then reads the row. A fire that is
// purged in between is none.
func (s *Reader) LastScheduled(
	ctx context.Context, app string, id timer.ID, beforeMS int64,
) (o timer.Outcome, found bool, err error) {
	if err := s.timers.CheckApp(ctx, app, id); err != nil {
		return o, false, err
	}
	err = s.db.Read(
		ctx,
		"reading a timer's last scheduled fire",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			found = false
			var keys []int64
			q := sqldb.Stmt("SELECT due_ms FROM outcomes" + s.db.Dialect.OutcomesByTimer + " WHERE timer_id=").
				Int(int64(id)).
				Add(" AND due_ms<").
				Int(beforeMS).
				Add(" AND series=0 ORDER BY due_ms DESC,series DESC LIMIT 1")
			if err := s.db.SelectAll(ctx, c, &keys, q); err != nil || len(keys) == 0 {
				return err
			}
			var rows []OutcomeRow
			q = OfFire(
				sqldb.Stmt(
					"SELECT "+OutcomeColumns+" FROM outcomes"+s.db.Dialect.ByTimer+" WHERE ",
				),
				timer.FireID{Timer: id, DueMS: keys[0]},
			)
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			if found = len(rows) > 0; found {
				o = rows[0].Outcome()
			}
			return nil
		},
	)
	return o, found, err
}
