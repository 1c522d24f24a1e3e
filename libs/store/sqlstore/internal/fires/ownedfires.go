package fires

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// bucketsOf returns how many buckets the fires of a minute are spread over.
func (s *Fires) bucketsOf(
	ctx context.Context,
	c sqlx.QueryerContext,
	minute int64,
) (n int32, err error) {
	err = s.db.SelectOne(
		ctx,
		c,
		&n,
		sqldb.Stmt("SELECT buckets FROM minutes WHERE minute=").Int(minute),
	)
	if errors.Is(err, sql.ErrNoRows) {
		return 1, nil
	}
	return n, err
}

// Owned scans the index by_run from fromMS to untilMS. It reads all open fires of that time, which
// are few in the past except in a backlog. owner is in no index, so that a claim writes none.
func (s *Fires) Owned(
	ctx context.Context,
	sessions []timer.ID,
	fromMS, untilMS int64,
	limit int,
) (fires []timer.Fire, err error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	first, last := timer.MinuteOf(fromMS), timer.MinuteOf(untilMS)
	err = s.db.Read(
		ctx,
		"reading owned fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := sqldb.Stmt(
				"SELECT " + Columns + " FROM fires" + s.db.Dialect.ByRun + " WHERE run_at_minute>=",
			).Int(first).
				Add(" AND run_at_minute<").
				Int(last).
				Add(" AND run_at_ms>=").
				Int(fromMS).
				Add(" AND owner").
				IDList(sessions).
				Add(" LIMIT ").
				Int(int64(limit))
			fires, err = s.fires.Select(ctx, c, q)
			if err != nil || len(fires) >= limit {
				return err
			}
			buckets, err := s.bucketsOf(ctx, c, last)
			if err != nil {
				return err
			}
			q = sqldb.Stmt(
				"SELECT " + Columns + " FROM fires" + s.db.Dialect.ByRun + " WHERE run_at_minute=",
			).Int(last).
				Add(" AND bucket IN (0")
			for b := int32(1); b < buckets; b++ {
				q.Add(",").Int(int64(b))
			}
			q.Add(") AND run_at_ms>=").
				Int(fromMS).
				Add(" AND run_at_ms<=").
				Int(untilMS).
				Add(" AND owner").
				IDList(sessions)
			more, err := s.fires.Select(ctx, c, q.Add(" LIMIT ").Int(int64(limit-len(fires))))
			fires = append(fires, more...)
			return err
		},
	)
	// The sort is here, because the server would sort all matching rows before it applies the
	// limit. That is slowest in a backlog.
	slices.SortFunc(fires, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFireIDs(a.FireID, b.FireID))
	})
	return fires, err
}

type appCountRow struct {
	AppID int64 `db:"app_id"`
	Count int   `db:"n"`
}

// OverdueByApp walks along the index, from its edge on, and reads of each fire its row for the app.
func (s *Fires) OverdueByApp(
	ctx context.Context,
	limit, top int,
) (n int, apps []store.AppCount, err error) {
	err = s.db.Read(
		ctx,
		"counting overdue fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			n, apps = 0, nil
			var nowMS int64
			if err := s.db.SelectOne(
				ctx,
				c,
				&nowMS,
				sqldb.Stmt("SELECT ").NowMS(s.db.Dialect),
			); err != nil {
				return err
			}
			var rows []appCountRow
			q := sqldb.Stmt("SELECT app_id,COUNT(*) AS n FROM (SELECT app_id FROM fires" +
				s.db.Dialect.ByRun + " WHERE run_at_minute<").Int(nowMS / timer.MinuteMS).
				Add(fireOrder + " LIMIT ").Int(int64(limit)).Add(") late GROUP BY app_id")
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for _, r := range rows {
				n += r.Count
			}
			slices.SortFunc(rows, func(a, b appCountRow) int {
				return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.AppID, b.AppID))
			})
			rows = rows[:min(top, len(rows))]
			ids := make([]int64, len(rows))
			for i := range rows {
				ids[i] = rows[i].AppID
			}
			names, err := s.apps.Names(ctx, c, ids)
			if err != nil {
				return err
			}
			for _, r := range rows {
				apps = append(apps, store.AppCount{App: names[r.AppID], Count: r.Count})
			}
			return nil
		},
	)
	return n, apps, err
}

// OldestOpen finds the first minute with an open fire at the edge of the index, and the first fire
// of each bucket in it. The index says how many buckets these are, because a minute's own row is
// purged after a day. If the minute's fires end between the statements, it looks again: those of the
// next minutes may be overdue, too.
func (s *Fires) OldestOpen(ctx context.Context) (runMS int64, err error) {
	err = s.db.Read(
		ctx,
		"reading the oldest open fire",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			for {
				var first struct {
					Minute sql.NullInt64 `db:"minute"`
					NowMS  int64         `db:"now_ms"`
				}
				err := s.db.SelectOne(
					ctx,
					c,
					&first,
					sqldb.Stmt(
						"SELECT MIN(run_at_minute) AS minute,",
					).NowMS(s.db.Dialect).
						Add(" AS now_ms FROM fires"),
				)
				if err != nil || !first.Minute.Valid ||
					first.Minute.Int64*timer.MinuteMS > first.NowMS {
					return err
				}
				at, err := s.firstOf(ctx, c, first.Minute.Int64)
				if err != nil || at.Valid {
					if at.Int64 <= first.NowMS {
						runMS = at.Int64
					}
					return err
				}
			}
		},
	)
	return runMS, err
}

// firstOf returns when the first fire of a minute is to run, over all of its buckets.
func (s *Fires) firstOf(
	ctx context.Context, c sqlx.QueryerContext, minute int64,
) (at sql.NullInt64, err error) {
	var bucket sql.NullInt64
	err = s.db.SelectOne(
		ctx,
		c,
		&bucket,
		sqldb.Stmt("SELECT MAX(bucket) FROM fires"+s.db.Dialect.ByRun+" WHERE run_at_minute=").
			Int(minute),
	)
	if err != nil || !bucket.Valid {
		return at, err
	}
	q := sqldb.Stmt("SELECT MIN(run_at_ms) FROM (")
	for b := range bucket.Int64 + 1 {
		if b > 0 {
			q.Add(" UNION ALL ")
		}
		q.Add("SELECT MIN(run_at_ms) AS run_at_ms FROM fires" + s.db.Dialect.ByRun + " WHERE run_at_minute=").
			Int(minute).
			Add(" AND bucket=").
			Int(b)
	}
	err = s.db.SelectOne(ctx, c, &at, q.Add(") firsts"))
	return at, err
}
