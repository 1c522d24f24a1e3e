package fires

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// OpenFires scans the primary key of fires. An index by timer would slow down every insert and
// delete, and few past fires are open. The first statement finds the instant at which the scan
// ends, the second the timer's fires before it, and the third those of that instant: any number of
// timers may be due then, and the key leads to the one. A fire that is inserted or finished in
// between may be returned or not.
func (s *Fires) OpenFires(
	ctx context.Context, app string, id timer.ID, q store.OpenFiresQuery,
) (page store.OpenFiresPage, err error) {
	if err := s.timers.CheckApp(ctx, app, id); err != nil {
		return store.OpenFiresPage{}, err
	}
	err = s.db.Read(
		ctx,
		"reading a timer's open fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			page = store.OpenFiresPage{}
			var ends []int64
			if err := s.db.SelectAll(
				ctx,
				c,
				&ends,
				s.fromOpen("due_ms", openRange{q.After.DueMS, q.UntilMS}).
					Add(openOrder).
					Add(" LIMIT 1 OFFSET ").
					Int(int64(q.ScanLimit-1)),
			); err != nil {
				return err
			}
			parts := []openRange{{q.After.DueMS, q.UntilMS}}
			if len(ends) > 0 {
				parts = []openRange{{q.After.DueMS, ends[0] - 1}, {ends[0], ends[0]}}
				page.Next = store.OpenFiresPosition{
					DueMS:  ends[0] + 1,
					Series: store.BeforeAllSeries,
				}
			}
			for _, part := range parts {
				left := q.Limit - len(page.Fires)
				if left == 0 || part.fromMS > part.untilMS {
					continue
				}
				found, err := s.fires.Select(
					ctx,
					c,
					s.walkOpenOf(id, q.After, part).Add(" LIMIT ").Int(int64(left)),
				)
				if err != nil {
					return err
				}
				page.Fires = append(page.Fires, found...)
			}
			if n := len(page.Fires); n == q.Limit {
				page.Next = store.OpenFiresPosition{
					DueMS:  page.Fires[n-1].DueMS,
					Series: page.Fires[n-1].Series,
				}
			}
			return nil
		},
	)
	return page, err
}

const openOrder = " ORDER BY due_ms,timer_id,series"

// openRange is a range of due instants, both included.
type openRange struct{ fromMS, untilMS int64 }

// walkOpenOf reads the open fires of one timer after the position.
func (s *Fires) walkOpenOf(
	id timer.ID,
	after store.OpenFiresPosition,
	due openRange,
) *sqldb.Statement {
	walk := s.fromOpen(Columns, due).Add(" AND timer_id=").Int(int64(id))
	if after.Series >= 0 {
		walk.Add(" AND (due_ms>").Int(after.DueMS).Add(" OR series>").Int(after.Series).Add(")")
	}
	return walk.Add(openOrder)
}

func (s *Fires) fromOpen(columns string, due openRange) *sqldb.Statement {
	walk := sqldb.Stmt("SELECT " + columns + " FROM fires" + s.db.Dialect.ByPrimary + " WHERE ")
	if due.fromMS == due.untilMS {
		return walk.Add("due_ms=").Int(due.untilMS) // so that the key leads to one timer
	}
	return walk.Add("due_ms>=").Int(due.fromMS).Add(" AND due_ms<=").Int(due.untilMS)
}

// Fire reads the open fire first and the outcome second. A fire that is recorded in between is
// found twice and never missed. The outcome then counts.
func (s *Fires) Fire(
	ctx context.Context,
	app string,
	id timer.FireID,
) (rec store.FireRecord, err error) {
	if err := s.timers.CheckApp(ctx, app, id.Timer); err != nil {
		return store.FireRecord{}, err
	}
	err = s.db.Read(ctx, "reading a fire", func(ctx context.Context, c sqlx.QueryerContext) error {
		rec = store.FireRecord{}
		open, err := s.fires.Select(
			ctx,
			c,
			sqldb.Stmt("SELECT "+Columns+" FROM fires WHERE due_ms=").Int(id.DueMS).
				Add(" AND timer_id=").Int(int64(id.Timer)).Add(" AND series=").Int(id.Series),
		)
		if err != nil {
			return err
		}
		var done []history.OutcomeRow
		err = s.db.SelectAll(
			ctx,
			c,
			&done,
			history.OfFire(
				sqldb.Stmt(
					"SELECT "+history.OutcomeColumns+" FROM outcomes"+s.db.Dialect.ByTimer+" WHERE ",
				),
				id,
			),
		)
		if err != nil {
			return err
		}
		switch {
		case len(done) > 0:
			o := done[0].Outcome()
			rec.Outcome = &o
		case len(open) > 0:
			rec.Open = &open[0]
		default:
			return timer.NotFound("fire", id)
		}
		rec.Attempts, err = s.history.Attempts(ctx, c, id)
		return err
	})
	return rec, err
}
