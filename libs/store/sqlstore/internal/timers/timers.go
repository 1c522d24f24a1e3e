package timers

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Timer returns one timer.
func (s *Timers) Timer(ctx context.Context, app string, id timer.ID) (t timer.Timer, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return timer.Timer{}, err
	}
	err = s.db.Read(ctx, "reading a timer", func(ctx context.Context, c sqlx.QueryerContext) error {
		var row Row
		err := s.db.SelectOne(
			ctx,
			c,
			&row,
			sqldb.Stmt("SELECT "+Columns+" FROM timers WHERE id=").Int(int64(id)).
				Add(" AND app_id=").Int(appID).Add(" AND status<>").Int(RowDeleted),
		)
		if errors.Is(err, sql.ErrNoRows) {
			return timer.NotFound("timer", id)
		}
		if err != nil {
			return err
		}
		ts, err := s.timers.CompleteAll(ctx, c, []Row{row}, nil)
		if err != nil {
			return err
		}
		t = ts[0]
		return nil
	})
	return t, err
}

// List returns an app's timers in order of id.
func (s *Timers) List(ctx context.Context, query store.Query) (ts []timer.Timer, err error) {
	appID, err := s.apps.ID(ctx, query.App)
	if err != nil || appID == 0 {
		return nil, err
	}
	err = s.db.Read(ctx, "listing timers", func(ctx context.Context, c sqlx.QueryerContext) error {
		q := sqldb.Stmt(
			"SELECT " + Columns + " FROM timers" + s.db.Dialect.ByApp + " WHERE app_id=",
		).Int(appID).
			Add(" AND id>").
			Int(int64(query.After))
		if query.Status == "" {
			q.Add(" AND status<>").Int(RowDeleted)
		} else {
			q.Add(" AND status=").Int(StatusToRow(query.Status))
		}
		var rows []Row
		if err := s.db.SelectAll(
			ctx,
			c,
			&rows,
			q.Add(" ORDER BY id LIMIT ").Int(int64(query.Limit)),
		); err != nil {
			return err
		}
		ts, err = s.timers.CompleteAll(ctx, c, rows, nil)
		return err
	})
	return ts, err
}

// stateRow has the columns that make a timer.State.
type stateRow struct {
	ID            sql.NullInt64  `db:"id"`
	App           sql.NullString `db:"app"`
	TimerAppID    sql.NullInt64  `db:"timer_app_id"`
	Name          sql.NullString `db:"name"`
	Origin        sql.NullString `db:"origin"`
	Status        sql.NullInt64  `db:"status"`
	Version       sql.NullInt32  `db:"version"`
	ActiveSinceMS sql.NullInt64  `db:"active_since_ms"`
	ActiveEpoch   sql.NullInt64  `db:"active_epoch"`
	AnchorMS      sql.NullInt64  `db:"anchor_ms"`
	VersionMS     sql.NullInt64  `db:"version_since_ms"`
	PlanVersion   sql.NullInt32  `db:"plan_version"`
	Frozen        sql.NullInt64  `db:"frozen"`
	InactiveSince sql.NullInt64  `db:"inactive_since_ms"`
	PausedUntilMS sql.NullInt64  `db:"paused_until_ms"`
	RunningDueMS  sql.NullInt64  `db:"slot_due_ms"`
	RunningSeries sql.NullInt64  `db:"slot_series"`
}

// statesFrom begins a statement that reads states by the keys of timers, and the app of each by its
// key. Where there are few apps, MariaDB would read all of their timers otherwise, and sort them.
func (s *Timers) statesFrom() string {
	d := s.db.Dialect
	return "SELECT " + stateColumns + " FROM timers t" + d.ByPrimary + d.JoinOrdered +
		"apps a" + d.ByPrimary + " ON a.id=t.app_id WHERE t.id"
}

const stateColumns = "t.id,a.name AS app,t.app_id AS timer_app_id,t.name,t.origin,t.status,t.version,t.active_since_ms,t.active_epoch,t.anchor_ms,t.version_since_ms,t.plan_version," +
	"a.frozen,t.inactive_since_ms,t.paused_until_ms,t.slot_due_ms,t.slot_series"

func (r stateRow) state() timer.State {
	var running, last timer.FireID
	if due := r.RunningDueMS.Int64; due != 0 { // negative: it was the last
		last = timer.FireID{
			Timer:  timer.ID(r.ID.Int64),
			DueMS:  max(due, -due),
			Series: r.RunningSeries.Int64,
		}
		if due > 0 {
			running = last
		}
	}
	return timer.State{
		ID: timer.ID(
			r.ID.Int64,
		),
		App:             r.App.String,
		AppID:           r.TimerAppID.Int64,
		Name:            r.Name.String,
		Origin:          r.Origin.String,
		Status:          StatusFromRow(r.Status.Int64),
		Version:         r.Version.Int32,
		ActiveSinceMS:   r.ActiveSinceMS.Int64,
		ActiveEpoch:     r.ActiveEpoch.Int64,
		AnchorMS:        r.AnchorMS.Int64,
		VersionMS:       r.VersionMS.Int64,
		PlanVersion:     r.PlanVersion.Int32,
		InactiveSinceMS: r.InactiveSince.Int64,
		PausedUntilMS:   r.PausedUntilMS.Int64,
		Frozen:          r.Frozen.Int64 != 0,
		Running:         running,
		LastRunning:     last,
	}
}

// States returns the present states of timers. A deleted one has StatusDeleted.
func (s *Timers) States(ctx context.Context, ids []timer.ID) (states []timer.State, err error) {
	err = s.db.Read(ctx, "reading states", func(ctx context.Context, c sqlx.QueryerContext) error {
		states = make([]timer.State, 0, len(ids))
		for part := range sqldb.Batches(ids) {
			rows := make([]stateRow, 0, len(part))
			err := s.db.SelectAll(
				ctx,
				c,
				&rows,
				sqldb.Stmt(s.statesFrom()).IDList(part),
			)
			if err != nil {
				return err
			}
			for i := range rows {
				states = append(states, rows[i].state())
			}
		}
		return nil
	})
	return states, err
}

// StatesAfter returns states of timers of all apps, in order of id.
func (s *Timers) StatesAfter(
	ctx context.Context, after timer.ID, limit int,
) (states []timer.State, err error) {
	err = s.db.Read(ctx, "reading states", func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []stateRow
		q := sqldb.Stmt(s.statesFrom() + ">").
			Int(int64(after)).Add(" ORDER BY t.id LIMIT ").Int(int64(limit))
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for _, r := range rows {
			states = append(states, r.state())
		}
		return nil
	})
	return states, err
}

// Definitions returns versions of definitions.
func (s *Timers) Definitions(
	ctx context.Context, keys []store.VersionKey,
) (defs map[store.VersionKey]*timer.Definition, err error) {
	err = s.db.Read(
		ctx,
		"reading definitions",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			versions, err := s.timers.Versions(ctx, c, keys)
			defs = make(map[store.VersionKey]*timer.Definition, len(versions))
			for k, v := range versions {
				defs[k] = &v.Definition
			}
			return err
		},
	)
	return defs, err
}
