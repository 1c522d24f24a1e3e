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
