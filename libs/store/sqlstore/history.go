package sqlstore

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

// History pages backwards through a timer's outcomes, also those of a deleted timer.
func (s *Store) History(
	ctx context.Context, app string, id timer.ID, before timer.FireID, limit int,
) (out []timer.Outcome, err error) {
	if err := s.ownTimer(ctx, app, id); err != nil {
		return nil, err
	}
	err = s.read(
		ctx,
		"reading a timer's history",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := stmt(
				"SELECT " + outcomeColumns + " FROM outcomes" + s.dialect.byTimer + " WHERE timer_id=",
			).int(int64(id))
			if before != (timer.FireID{}) {
				q.add(" AND due_ms<=").int(before.DueMS).add(" AND (due_ms<").int(before.DueMS).
					add(" OR series<").int(before.Series).add(")")
			}
			var rows []outcomeRow
			if err := s.selectAll(
				ctx,
				c,
				&rows,
				q.add(" ORDER BY due_ms DESC,series DESC LIMIT ").int(int64(limit)),
			); err != nil {
				return err
			}
			for _, r := range rows {
				out = append(out, r.outcome())
			}
			return nil
		},
	)
	return out, err
}
