package timers

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Replanning returns those of the fires that a follow-up has not reached. In the transaction of a
// Record that has locked a fire's row, the answer stays true until the commit if it is no: a page
// would have to wait for the row, and a later edit comes after the outcome.
func (s *Rows) Replanning(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.FireID,
) (undecided []timer.FireID, err error) {
	var of []timer.ID
	for _, id := range ids {
		if id.Series == 0 {
			of = append(of, id.Timer)
		}
	}
	slices.Sort(of)
	type stretch struct {
		ID      int64 `db:"timer_id"`
		FromMS  int64 `db:"next_due_ms"`
		UntilMS int64 `db:"until_ms"`
	}
	found := map[timer.ID]stretch{}
	for part := range sqldb.Batches(slices.Compact(of)) {
		var rows []stretch
		if err := s.db.SelectAll(
			ctx,
			c,
			&rows,
			sqldb.Stmt(
				"SELECT r.timer_id,r.until_ms,t.next_due_ms FROM replans r"+s.db.Dialect.JoinOrdered+
					"timers t ON t.id=r.timer_id WHERE r.timer_id",
			).IDList(part),
		); err != nil {
			return nil, err
		}
		for _, r := range rows {
			found[timer.ID(r.ID)] = r
		}
	}
	for _, id := range ids {
		if r, ok := found[id.Timer]; ok && id.Series == 0 && id.DueMS >= r.FromMS &&
			id.DueMS < r.UntilMS {
			undecided = append(undecided, id)
		}
	}
	return undecided, nil
}
