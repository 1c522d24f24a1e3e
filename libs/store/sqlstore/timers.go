package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Timer returns one timer.
func (s *Store) Timer(ctx context.Context, app string, id timer.ID) (t timer.Timer, err error) {
	appID, err := s.appID(ctx, app)
	if err != nil {
		return timer.Timer{}, err
	}
	err = s.read(ctx, "reading a timer", func(ctx context.Context, c sqlx.QueryerContext) error {
		var row timerRow
		err := s.selectOne(ctx, c, &row, stmt("SELECT "+timerColumns+" FROM timers WHERE id=").int(int64(id)).
			add(" AND app_id=").int(appID).add(" AND status<>").int(rowDeleted))
		if errors.Is(err, sql.ErrNoRows) {
			return timer.NotFound("timer", id)
		}
		if err != nil {
			return err
		}
		ts, err := s.timers(ctx, c, []timerRow{row}, nil)
		if err != nil {
			return err
		}
		t = ts[0]
		return nil
	})
	return t, err
}

// List returns an app's timers in order of id.
func (s *Store) List(ctx context.Context, query store.Query) (ts []timer.Timer, err error) {
	appID, err := s.appID(ctx, query.App)
	if err != nil || appID == 0 {
		return nil, err
	}
	err = s.read(ctx, "listing timers", func(ctx context.Context, c sqlx.QueryerContext) error {
		q := stmt("SELECT " + timerColumns + " FROM timers" + s.dialect.byApp + " WHERE app_id=").int(appID).add(" AND id>").int(int64(query.After))
		if query.Status == "" {
			q.add(" AND status<>").int(rowDeleted)
		} else {
			q.add(" AND status=").int(statusToRow(query.Status))
		}
		var rows []timerRow
		if err := s.selectAll(ctx, c, &rows, q.add(" ORDER BY id LIMIT ").int(int64(query.Limit))); err != nil {
			return err
		}
		ts, err = s.timers(ctx, c, rows, nil)
		return err
	})
	return ts, err
}

// stateRow is what an executor must know of a timer.
type stateRow struct {
	ID            sql.NullInt64  `db:"id"`
	App           sql.NullString `db:"app"`
	Status        sql.NullInt64  `db:"status"`
	Version       sql.NullInt32  `db:"version"`
	ActiveSinceMS sql.NullInt64  `db:"active_since_ms"`
	ActiveEpoch   sql.NullInt64  `db:"active_epoch"`
}

const stateColumns = "t.id,a.name AS app,t.status,t.version,t.active_since_ms,t.active_epoch"

func (r stateRow) state() timer.State {
	return timer.State{
		ID: timer.ID(r.ID.Int64), App: r.App.String, Status: statusFromRow(r.Status.Int64), Version: r.Version.Int32,
		ActiveSinceMS: r.ActiveSinceMS.Int64, ActiveEpoch: r.ActiveEpoch.Int64,
	}
}

// States returns what is known of the timers; a deleted one has StatusDeleted.
func (s *Store) States(ctx context.Context, ids []timer.ID) (states []timer.State, err error) {
	err = s.read(ctx, "reading states", func(ctx context.Context, c sqlx.QueryerContext) error {
		for part := range batches(ids) {
			var rows []stateRow
			err := s.selectAll(ctx, c, &rows,
				stmt("SELECT "+stateColumns+" FROM timers t JOIN apps a ON a.id=t.app_id WHERE t.id").idList(part))
			if err != nil {
				return err
			}
			for _, r := range rows {
				states = append(states, r.state())
			}
		}
		return nil
	})
	return states, err
}

// Definitions returns versions of definitions.
func (s *Store) Definitions(
	ctx context.Context, keys []store.VersionKey,
) (defs map[store.VersionKey]timer.Definition, err error) {
	err = s.read(ctx, "reading definitions", func(ctx context.Context, c sqlx.QueryerContext) error {
		versions, err := s.readVersions(ctx, c, keys)
		defs = make(map[store.VersionKey]timer.Definition, len(versions))
		for k, v := range versions {
			defs[k] = v.definition
		}
		return err
	})
	return defs, err
}

// Changes returns the change log behind a sequence. A transaction that took its sequence early and commits late appears behind
// the back of a reader who has gone on: this is what the overlap is for.
func (s *Store) Changes(ctx context.Context, after int64, limit int) (changes []store.Change, err error) {
	var rows []struct {
		Seq   int64 `db:"seq"`
		AtMS  int64 `db:"at_ms"`
		Timer int64 `db:"timer_id"`
		stateRow
	}
	err = s.read(ctx, "reading the change log", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.selectAll(ctx, c, &rows, stmt("SELECT c.seq,c.at_ms,c.timer_id,"+stateColumns+" FROM timer_changes c "+
			"LEFT JOIN timers t ON t.id=c.timer_id LEFT JOIN apps a ON a.id=t.app_id WHERE c.seq>").int(after).
			add(" ORDER BY c.seq LIMIT ").int(int64(limit)))
	})
	for _, r := range rows {
		ch := store.Change{Seq: r.Seq, AtMS: r.AtMS, State: timer.State{ID: timer.ID(r.Timer)}}
		if r.ID.Valid {
			ch.State = r.state()
		}
		changes = append(changes, ch)
	}
	return changes, err
}

// LastChange returns the latest sequence of the change log.
func (s *Store) LastChange(ctx context.Context) (seq int64, err error) {
	err = s.read(ctx, "reading the change log", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.selectOne(ctx, c, &seq, stmt("SELECT COALESCE(MAX(seq),0) FROM timer_changes"))
	})
	return seq, err
}
