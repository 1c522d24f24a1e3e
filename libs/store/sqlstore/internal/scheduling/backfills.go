package scheduling

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The stored statuses of a backfill.
const (
	rowBackfillRunning   = 0
	rowBackfillDone      = 1
	rowBackfillCancelled = 2
)

const backfillColumns = "id,app_id,timer_id,from_ms,to_ms,next_ms,fires_created,status,created_ms"

// backfillRow is a row of backfills.
type backfillRow struct {
	ID        int64 `db:"id"`
	AppID     int64 `db:"app_id"`
	Timer     int64 `db:"timer_id"`
	FromMS    int64 `db:"from_ms"`
	ToMS      int64 `db:"to_ms"`
	NextMS    int64 `db:"next_ms"`
	Created   int64 `db:"fires_created"`
	Status    int64 `db:"status"`
	CreatedMS int64 `db:"created_ms"`
}

func (r backfillRow) backfill(app string) store.Backfill {
	status := store.BackfillRunning
	switch r.Status {
	case rowBackfillDone:
		status = store.BackfillDone
	case rowBackfillCancelled:
		status = store.BackfillCancelled
	}
	return store.Backfill{
		ID: timer.ID(
			r.ID,
		),
		App:          app,
		Timer:        timer.ID(r.Timer),
		FromMS:       r.FromMS,
		ToMS:         r.ToMS,
		NextMS:       r.NextMS,
		FiresCreated: r.Created,
		Status:       status,
		CreatedMS:    r.CreatedMS,
	}
}

func (s *Scheduling) selectBackfill(
	ctx context.Context,
	c sqlx.QueryerContext,
	id timer.ID,
	lock string,
) (row backfillRow, err error) {
	err = s.db.SelectOne(
		ctx,
		c,
		&row,
		sqldb.Stmt("SELECT "+backfillColumns+" FROM backfills WHERE id=").Int(int64(id)).Add(lock),
	)
	if errors.Is(err, sql.ErrNoRows) {
		return row, timer.NotFound("backfill", id)
	}
	return row, err
}

// StartBackfill reads the row, and inserts it if there is none. A repeated call returns the present
// state of the backfill.
func (s *Scheduling) StartBackfill(
	ctx context.Context,
	b store.Backfill,
) (out store.Backfill, err error) {
	appID, err := s.apps.ID(ctx, b.App)
	if err != nil {
		return store.Backfill{}, err
	}
	err = s.db.Write(ctx, "starting a backfill", func(ctx context.Context, c sqldb.Runner) error {
		var n int
		err := s.db.SelectOne(
			ctx,
			c,
			&n,
			sqldb.Stmt(
				"SELECT COUNT(*) FROM timers WHERE id=",
			).Int(int64(b.Timer)).
				Add(" AND app_id=").
				Int(appID).
				Add(" AND status<>").
				Int(timers.RowDeleted).
				Add(s.db.Dialect.ForShare), // PurgeTimers reads the backfills once it has the lock
		)
		if err == nil && n == 0 {
			err = timer.NotFound("timer", b.Timer)
		}
		if err != nil {
			return err
		}
		if err := s.db.GuardTimers(ctx, c, []timer.ID{b.Timer}); err != nil {
			return err
		}
		row, err := s.selectBackfill(ctx, c, b.ID, "")
		switch {
		case err == nil && (row.AppID != appID || row.Timer != int64(b.Timer)):
			return timer.Conflict("id", "this backfill id is taken")
		case timer.CodeOf(err) == timer.CodeNotFound:
			if err := s.apps.RefuseFrozen(ctx, c, b.App); err != nil {
				return err
			}
			row, err = s.insertBackfill(ctx, c, appID, &b)
		}
		out = row.backfill(b.App)
		return err
	})
	return out, err
}

// insertBackfill inserts a backfill that was not there. If another call inserts it first, the
// transaction is repeated and finds it.
func (s *Scheduling) insertBackfill(
	ctx context.Context,
	c sqldb.Runner,
	appID int64,
	b *store.Backfill,
) (row backfillRow, err error) {
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return row, err
	}
	row = backfillRow{
		ID: int64(b.ID), AppID: appID, Timer: int64(b.Timer),
		FromMS: b.FromMS, ToMS: b.ToMS, NextMS: b.FromMS,
		Status: rowBackfillRunning, CreatedMS: nowMS,
	}
	_, err = s.db.Exec(ctx, c, sqldb.Stmt(
		"INSERT INTO backfills ("+backfillColumns+",expand_at_ms) VALUES ",
	).Row(true, row.ID, appID, row.Timer,
		row.FromMS, row.ToMS, row.NextMS, 0, row.Status, nowMS, nowMS))
	if s.db.Dialect.ClassOf(err) == engine.ClassDuplicate {
		return row, engine.ErrRepeat
	}
	if err != nil {
		return row, err
	}
	made := row.backfill(b.App)
	e, err := store.AuditBackfillStarted(&made)
	return row, s.audit.Add(ctx, c, appID, nowMS, e, err)
}

// Backfill returns a backfill.
func (s *Scheduling) Backfill(
	ctx context.Context,
	app string,
	id timer.ID,
) (b store.Backfill, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return store.Backfill{}, err
	}
	err = s.db.Read(
		ctx,
		"reading a backfill",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			row, err := s.selectBackfill(ctx, c, id, "")
			if err == nil && row.AppID != appID {
				return timer.NotFound("backfill", id)
			}
			b = row.backfill(app)
			return err
		},
	)
	return b, err
}

// CancelBackfill first ends the backfill with one statement, which waits for a running expansion of
// it. After that there is no further expansion. A backfill that has created all its fires is
// cancelled only if one of them is open.
//
// It then finishes the unowned fires in short transactions. A claim comes before, and its fire is
// left alone, or it comes after and finds no fire. A call that dies halfway leaves fires open,
// which a repeated call finishes. Two calls at once finish each fire once. Other transactions write
// no fires of this series. If the last fire is finished between the read and the statement, the
// backfill is cancelled although it is complete.
func (s *Scheduling) CancelBackfill(
	ctx context.Context,
	app string,
	id timer.ID,
) (store.Backfill, error) {
	b, err := s.Backfill(ctx, app, id)
	if err != nil {
		return store.Backfill{}, err
	}
	for _, from := range []int64{rowBackfillRunning, rowBackfillDone} {
		if from == rowBackfillDone {
			open, err := s.backfillFires(ctx, &b, timer.FireID{DueMS: b.FromMS}, "", 1)
			if err != nil || len(open) == 0 {
				return b, err
			}
		}
		err = s.setCancelled(ctx, &b, from)
		if err == nil && store.IsDryRun(ctx) {
			if from == rowBackfillDone || b.Status == store.BackfillRunning {
				b.Status = store.BackfillCancelled
				return b, nil
			}
			continue
		}
		if err == nil {
			b, err = s.Backfill(ctx, app, id)
		}
		if err != nil {
			return b, err
		}
		if b.Status == store.BackfillCancelled {
			break
		}
	}
	for after := (timer.FireID{DueMS: b.FromMS}); ; {
		ids, err := s.backfillFires(ctx, &b, after, " AND owner=0", store.MaxBatch)
		if err != nil || len(ids) == 0 {
			return b, err
		}
		if err := s.fires.Cancel(ctx, ids); err != nil {
			return b, err
		}
		after = ids[len(ids)-1]
	}
}

// setCancelled ends a backfill that has a status. If it has another one, nothing is changed.
func (s *Scheduling) setCancelled(ctx context.Context, b *store.Backfill, from int64) error {
	appID, err := s.apps.ID(ctx, b.App)
	if err != nil {
		return err
	}
	return s.db.Write(
		ctx,
		"cancelling a backfill",
		func(ctx context.Context, c sqldb.Runner) error {
			n, err := s.db.Exec(
				ctx,
				c,
				sqldb.Stmt("UPDATE backfills SET status=").Int(rowBackfillCancelled).
					Add(" WHERE id=").Int(int64(b.ID)).Add(" AND status=").Int(from),
			)
			if err != nil || n == 0 {
				return err
			}
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			was := *b
			was.Status = backfillRow{Status: from}.backfill(b.App).Status
			e, err := store.AuditBackfillCancelled(&was)
			return s.audit.Add(ctx, c, appID, nowMS, e, err)
		},
	)
}

// backfillFires returns open fires of a backfill after a position, and whether there may be more.
// It scans the primary key over the backfill's range: few fires of past instants are open.
func (s *Scheduling) backfillFires(
	ctx context.Context, b *store.Backfill, after timer.FireID, and string, limit int,
) (ids []timer.FireID, err error) {
	var rows []sqldb.FireIDRow
	err = s.db.Read(
		ctx,
		"reading the fires of a backfill",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := sqldb.Stmt(
				"SELECT " + sqldb.FireKey + " FROM fires" + s.db.Dialect.ByPrimary + " WHERE ",
			)
			s.db.Dialect.KeyAfter(
				q,
				[]string{"due_ms", "timer_id", "series"},
				[]int64{after.DueMS, int64(after.Timer), after.Series},
			)
			q.Add(" AND due_ms<").
				Int(b.ToMS).
				Add(" AND timer_id=").
				Int(int64(b.Timer)).
				Add(" AND series=").
				Int(int64(b.ID)).
				Add(and + " ORDER BY " + sqldb.FireKey + " LIMIT ").
				Int(int64(limit))
			return s.db.SelectAll(ctx, c, &rows, q)
		},
	)
	for _, r := range rows {
		ids = append(ids, r.FireID())
	}
	return ids, err
}
