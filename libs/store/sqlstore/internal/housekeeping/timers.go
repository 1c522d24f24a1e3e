package housekeeping

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// pastDue is how long ago a fire was due that is past due. A fire that was added to a one-shot is so
// before the one-shot may go.
const pastDue = store.AddedFireRetention / 2

// maxPastDue is how many open fires that are past due are read. There are more while many timers
// are paused or frozen. Timers that were deleted later than the last of these fires was due then
// stay, and so do all one-shots: a fire that was added to one may be due at any later instant.
const maxPastDue = 100_000

// maxRemoved is how many bytes of definitions a transaction removes, unless a single timer has more.
// SQLite has one writer, which does nothing else meanwhile.
const maxRemoved = 8 << 20

// PurgeTimers finds timers without locks, along indexes by deletion and by due instant. It then
// locks and removes them in short transactions.
//
// No index leads from a timer to its fires, so it reads the fires that are past due once. What adds
// a fire to a timer locks its row: a transaction that came first has set expand_at_ms (Rows.Keep),
// and one that comes later finds no timer. Of two calls at once the second finds the rows gone. A
// call that dies halfway has removed some timers, each as a whole.
func (s *Housekeeping) PurgeTimers(ctx context.Context, deleted, oneShots time.Duration) error {
	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}
	p := timerPurge{
		Housekeeping: s,
		bounds:       store.NewTimerBounds(now.UnixMilli(), deleted, oneShots),
		open:         map[timer.ID]bool{},
	}
	if err := p.readPastDue(ctx, now.Add(-pastDue).UnixMilli()); err != nil {
		return err
	}
	if err := p.removeDeleted(ctx); err != nil || oneShots == 0 {
		return err
	}
	return p.removeOneShots(ctx)
}

// timerPurge is one call of PurgeTimers.
type timerPurge struct {
	*Housekeeping

	bounds store.TimerBounds
	open   map[timer.ID]bool // timers that have an open fire which is past due
}

func (p *timerPurge) readPastDue(ctx context.Context, untilMS int64) error {
	var rows []struct {
		DueMS int64 `db:"due_ms"`
		Timer int64 `db:"timer_id"`
	}
	err := p.db.Read(
		ctx,
		"reading fires that are past due",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			rows = nil
			return p.db.SelectAll(ctx, c, &rows, sqldb.Stmt(
				"SELECT due_ms,timer_id FROM fires"+p.db.Dialect.ByPrimary+" WHERE due_ms<",
			).Int(untilMS).Add(" ORDER BY due_ms,timer_id,series LIMIT ").Int(int64(p.MaxPastDue)))
		},
	)
	if err != nil {
		return err
	}
	for _, r := range rows {
		p.open[timer.ID(r.Timer)] = true
	}
	if len(rows) == p.MaxPastDue {
		lastMS := rows[len(rows)-1].DueMS - store.MinTimerRetention.Milliseconds()
		p.bounds.DeletedMS = min(p.bounds.DeletedMS, lastMS)
		p.bounds.OneShotsMS = 0
	}
	return nil
}

// removeDeleted walks along by_expand: expand_at_ms of a deleted timer is when it was deleted.
func (p *timerPurge) removeDeleted(ctx context.Context) error {
	return p.remove(ctx, "expand_at_ms", func(q *sqldb.Statement) {
		q.Add(p.db.Dialect.ByExpand + " WHERE status=").Int(timers.RowDeleted).
			Add(" AND expand_at_ms<").Int(p.bounds.DeletedMS)
	}, func(ctx context.Context, ids []timer.ID) error {
		return p.inParts(ctx, ids, p.removePart)
	})
}

// removeOneShots walks along by_last_due, app by app. That index also has the timers that are due
// seldom, perhaps millions of them, so each page of it is read without their rows.
func (p *timerPurge) removeOneShots(ctx context.Context) error {
	var apps []int64
	err := p.db.Read(ctx, "reading apps", func(ctx context.Context, c sqlx.QueryerContext) error {
		apps = nil
		return p.db.SelectAll(ctx, c, &apps, sqldb.Stmt("SELECT id FROM apps ORDER BY id"))
	})
	if err != nil {
		return err
	}
	for _, app := range apps {
		err := p.remove(ctx, "last_due_ms", func(q *sqldb.Statement) {
			q.Add(p.db.Dialect.ByLastDue + " WHERE app_id=").Int(app).
				Add(" AND status=").Int(timers.RowActive).
				Add(" AND last_due_ms<").Int(p.bounds.OneShotsMS)
		}, func(ctx context.Context, ids []timer.ID) error {
			ids, err := p.ended(ctx, ids)
			if err != nil {
				return err
			}
			return p.inParts(ctx, ids, p.removeOneShotsOf)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ended returns the timers for which nothing is to be planned.
func (p *timerPurge) ended(ctx context.Context, ids []timer.ID) (found []timer.ID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = p.db.Read(
		ctx,
		"reading timers that ended",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			found = nil
			return p.db.SelectAll(ctx, c, &found, sqldb.Stmt(
				"SELECT id FROM timers"+p.db.Dialect.ByPrimary+" WHERE id",
			).IDList(ids).
				Add(" AND status=").Int(timers.RowActive).
				Add(" AND next_due_ms=").Int(timer.NeverMS).
				Add(" AND expand_at_ms=").Int(timer.NeverMS).
				Add(" AND replan=").Int(timers.ReplanNothing).
				Add(" AND updated_ms<").Int(p.bounds.OneShotsMS))
		},
	)
	return found, err
}

// removeOneShotsOf removes those of the timers that are one-shots. Only their definitions tell, which
// it reads before it locks anything: recurring timers that have ended stay, and would be locked by
// each purge.
func (p *timerPurge) removeOneShotsOf(ctx context.Context, ids []timer.ID) error {
	var passed []timer.ID
	err := p.db.Read(
		ctx,
		"reading timers that ended",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			passed = nil
			ts, err := p.timers.All(ctx, c, ids)
			for i := range ts {
				if p.bounds.Passed(&ts[i]) {
					passed = append(passed, ts[i].ID)
				}
			}
			return err
		},
	)
	if err != nil || len(passed) == 0 {
		return err
	}
	return p.removePart(ctx, passed)
}

// remove passes the timers that match to removePage, in pages in the order of a column and the id.
func (p *timerPurge) remove(
	ctx context.Context,
	column string,
	where func(*sqldb.Statement),
	removePage func(ctx context.Context, ids []timer.ID) error,
) error {
	after := []int64{0, timer.NeverMS} // without those at 0
	for {
		var rows []struct {
			ID int64 `db:"id"`
			MS int64 `db:"ms"`
		}
		err := p.db.Read(
			ctx,
			"reading timers that ended",
			func(ctx context.Context, c sqlx.QueryerContext) error {
				rows = nil
				q := sqldb.Stmt("SELECT id," + column + " AS ms FROM timers")
				where(q)
				p.db.Dialect.KeyAfter(q.Add(" AND "), []string{column, "id"}, after)
				return p.db.SelectAll(ctx, c, &rows,
					q.Add(" ORDER BY "+column+",id LIMIT ").Int(store.MaxBatch))
			},
		)
		if err != nil || len(rows) == 0 {
			return err
		}
		var ids []timer.ID
		for _, r := range rows {
			if !p.open[timer.ID(r.ID)] {
				ids = append(ids, timer.ID(r.ID))
			}
		}
		if err := removePage(ctx, ids); err != nil {
			return err
		}
		last := rows[len(rows)-1]
		after = []int64{last.MS, last.ID}
	}
}

// inParts passes the timers on in parts.
func (p *timerPurge) inParts(
	ctx context.Context, ids []timer.ID, remove func(context.Context, []timer.ID) error,
) error {
	parts, err := p.parts(ctx, ids)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := remove(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// parts cuts a page by how many bytes the versions of its timers have.
func (p *timerPurge) parts(ctx context.Context, ids []timer.ID) (parts [][]timer.ID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []struct {
		ID    int64 `db:"timer_id"`
		Bytes int64 `db:"bytes"`
	}
	err = p.db.Read(
		ctx,
		"reading the sizes of timers",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			rows = nil
			return p.db.SelectAll(ctx, c, &rows, sqldb.Stmt(
				"SELECT timer_id,SUM(LENGTH(definition)) AS bytes FROM timer_versions"+
					p.db.Dialect.ByPrimary+" WHERE timer_id",
			).IDList(ids).Add(" GROUP BY timer_id"))
		},
	)
	if err != nil {
		return nil, err
	}
	sizes := make(map[timer.ID]int64, len(rows))
	for _, r := range rows {
		sizes[timer.ID(r.ID)] = r.Bytes
	}
	begin, taken := 0, int64(0)
	for i, id := range ids {
		if taken += sizes[id]; taken > maxRemoved && i > begin {
			parts = append(parts, ids[begin:i])
			begin, taken = i, sizes[id]
		}
	}
	return append(parts, ids[begin:]), nil
}

func (p *timerPurge) removePart(ctx context.Context, ids []timer.ID) error {
	return p.db.Write(ctx, "removing timers", func(ctx context.Context, c sqldb.Runner) error {
		byID, _, err := p.timers.LockAll(ctx, c, ids, nil)
		if err != nil {
			return err
		}
		var busy []int64
		if err := p.db.SelectAll(ctx, c, &busy, sqldb.Stmt(
			"SELECT DISTINCT timer_id FROM backfills"+p.db.Dialect.ByExpand+" WHERE status=0",
		)); err != nil {
			return err
		}
		for _, id := range busy {
			delete(byID, timer.ID(id))
		}
		var gone []*timer.Timer
		for _, id := range ids { // in order of the part
			if t := byID[id]; t != nil && p.bounds.Passed(t) {
				gone = append(gone, t)
			}
		}
		return p.timers.Remove(ctx, c, gone)
	})
}
