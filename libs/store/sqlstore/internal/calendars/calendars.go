package calendars

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// PutCalendar locks the calendar's row, or inserts it, so of two calls at once the second sees the
// result of the first. In the same transaction it requests a replan of the timers that name the
// calendar, and locks them in order of id. An expansion that read the old content finishes first,
// and its fires are replanned. Repeating a call changes nothing more, or is refused by ifVersion.
func (s *CalendarStore) PutCalendar(
	ctx context.Context,
	app string,
	cal timer.Calendar,
	ifVersion int64,
) (v store.CalendarVersion, err error) {
	content, err := json.Marshal(cal)
	if err != nil {
		return v, fmt.Errorf("encoding the calendar: %w", err)
	}
	ctx, _, err = s.apps.Make(ctx, []string{app})
	if err != nil {
		return v, err
	}
	err = s.db.Write(ctx, "writing a calendar", func(ctx context.Context, c sqldb.Runner) error {
		appID, err := s.apps.RefuseDeleted(ctx, c, app)
		if err != nil {
			return err
		}
		key := timers.NameKey{App: appID, Name: cal.Name}
		had, err := s.lockCalendar(ctx, c, key)
		if err != nil {
			return err
		}
		if ifVersion != 0 && max(ifVersion, 0) != had.Version {
			return timer.Conflict("version", "the calendar has another version by now")
		}
		if bytes.Equal(had.Content, content) {
			v = store.CalendarVersion{Calendar: cal, Version: had.Version, UpdatedMS: had.UpdatedMS}
			return nil
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		v = store.CalendarVersion{Calendar: cal, Version: had.Version + 1, UpdatedMS: nowMS}
		if err := s.writeCalendar(ctx, c, key, v.Version, content, nowMS); err != nil {
			return err
		}
		e := store.AuditCalendarPut(cal.Name, had.Content, content)
		if err := s.audit.Add(ctx, c, key.App, nowMS, e, nil); err != nil {
			return err
		}
		return s.requestReplan(ctx, c, key, nowMS)
	})
	return v, err
}

// lockCalendar locks a calendar's row and returns it. Its version is 0 if there is none.
func (s *CalendarStore) lockCalendar(
	ctx context.Context,
	c sqldb.Runner,
	key timers.NameKey,
) (row calendarRow, err error) {
	if err := s.db.Guard(ctx, c, key.App); err != nil {
		return row, err
	}
	err = s.db.SelectOne(
		ctx,
		c,
		&row,
		sqldb.Stmt("SELECT content,version,updated_ms FROM calendars WHERE app_id=").Int(key.App).
			Add(" AND name=").Bind(key.Name).Add(s.db.Dialect.ForUpdate),
	)
	if errors.Is(err, sql.ErrNoRows) {
		return calendarRow{}, nil
	}
	return row, err
}

func (s *CalendarStore) writeCalendar(
	ctx context.Context,
	c sqldb.Runner,
	key timers.NameKey,
	version int64,
	content []byte,
	nowMS int64,
) error {
	if version > 1 {
		_, err := s.db.Exec(
			ctx,
			c,
			sqldb.Stmt("UPDATE calendars SET version=").Int(version).Add(",content=").Bind(content).
				Add(",updated_ms=").
				Int(nowMS).Add(" WHERE app_id=").Int(key.App).Add(" AND name=").Bind(key.Name),
		)
		return err
	}
	_, err := s.db.Exec(
		ctx,
		c,
		sqldb.Stmt(
			"INSERT INTO calendars (app_id,name,version,content,updated_ms) VALUES (",
		).Int(key.App).
			Add(",").
			Bind(key.Name).
			Add(",1,").
			Bind(content).
			Add(",").
			Int(nowMS).
			Add(")"),
	)
	if s.db.Dialect.ClassOf(err) == engine.ClassDuplicate {
		return engine.ErrRepeat // another call inserted it first
	}
	return err
}

// requestReplan sets Replan of the timers that name a calendar, and makes active ones due for
// expansion. The caller has the calendar's row locked, so no other transaction adds or removes a
// use of it meanwhile. A timer that was created before the calendar is found, too.
func (s *CalendarStore) requestReplan(
	ctx context.Context,
	c sqldb.Runner,
	key timers.NameKey,
	nowMS int64,
) error {
	var ids []timer.ID
	err := s.db.SelectAll(
		ctx,
		c,
		&ids,
		sqldb.Stmt("SELECT timer_id FROM timer_calendars WHERE app_id=").
			Int(key.App).
			Add(" AND name=").
			Bind(key.Name).
			Add(" ORDER BY timer_id"),
	)
	if err != nil {
		return err
	}
	return s.requestTimerReplans(ctx, c, ids, nowMS)
}

// requestTimerReplans sets Replan of timers, given in order of id, and makes active ones due for
// expansion. It writes their guards, too: a timer that is to be replanned already may stay as it is.
func (s *CalendarStore) requestTimerReplans(
	ctx context.Context,
	c sqldb.Runner,
	ids []timer.ID,
	nowMS int64,
) error {
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt(
			"UPDATE timers" + s.db.Dialect.ByPrimary + " SET replan=",
		).Int(timers.ReplanCalendar).
			Add(",expand_at_ms=CASE WHEN status=").
			Int(timers.RowActive).
			Add(" THEN ").
			Int(nowMS).
			Add(" ELSE expand_at_ms END WHERE id").
			IDList(part).
			Add(" AND status<>").
			Int(timers.RowDeleted)
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
		if err := s.db.GuardTimers(ctx, c, part); err != nil {
			return err
		}
	}
	return nil
}

type calendarRow struct {
	Content   []byte `db:"content"`
	Version   int64  `db:"version"`
	UpdatedMS int64  `db:"updated_ms"`
}

func (s *CalendarStore) selectCalendars(
	ctx context.Context,
	c sqlx.QueryerContext,
	q *sqldb.Statement,
) (out []store.CalendarVersion, err error) {
	var rows []calendarRow
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	for _, r := range rows {
		v := store.CalendarVersion{Version: r.Version, UpdatedMS: r.UpdatedMS}
		if err := json.Unmarshal(r.Content, &v.Calendar); err != nil {
			return nil, fmt.Errorf("reading a calendar: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Calendar returns a calendar.
func (s *CalendarStore) Calendar(
	ctx context.Context,
	app, name string,
) (v store.CalendarVersion, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return v, err
	}
	err = s.db.Read(
		ctx,
		"reading a calendar",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			found, err := s.selectCalendars(
				ctx,
				c,
				sqldb.Stmt("SELECT content,version,updated_ms FROM calendars WHERE app_id=").
					Int(appID).
					Add(" AND name=").
					Bind(name),
			)
			if err == nil && len(found) == 0 {
				return timer.NotFound("calendar", name)
			}
			if err == nil {
				v = found[0]
			}
			return err
		},
	)
	return v, err
}

// Calendars returns an app's calendars in order of name.
func (s *CalendarStore) Calendars(
	ctx context.Context,
	app, after string,
	limit int,
) (all []store.CalendarVersion, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	err = s.db.Read(
		ctx,
		"listing calendars",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			all, err = s.selectCalendars(
				ctx,
				c,
				sqldb.Stmt("SELECT content,version,updated_ms FROM calendars WHERE app_id=").
					Int(appID).
					Add(" AND name>").
					Bind(after).
					Add(" ORDER BY name LIMIT ").
					Int(int64(limit)),
			)
			return err
		},
	)
	return all, err
}

// TimersOfCalendar returns the timers that name a calendar. The deletion of a timer deletes its uses.
func (s *CalendarStore) TimersOfCalendar(
	ctx context.Context,
	app, name string,
	after timer.ID,
	limit int,
) (ids []timer.ID, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	err = s.db.Read(
		ctx,
		"listing the timers of a calendar",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectAll(
				ctx,
				c,
				&ids,
				sqldb.Stmt("SELECT timer_id FROM timer_calendars WHERE app_id=").Int(appID).
					Add(" AND name=").Bind(name).Add(" AND timer_id>").Int(int64(after)).
					Add(" ORDER BY timer_id LIMIT ").Int(int64(limit)),
			)
		},
	)
	return ids, err
}

// DeleteCalendar locks the calendar's row, which a call that creates a timer with it locks for
// sharing. Such a timer is committed before and is seen, or comes later and finds no calendar.
// Repeated after an unknown result, the call may return not_found.
func (s *CalendarStore) DeleteCalendar(ctx context.Context, app, name string) error {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return err
	}
	key := timers.NameKey{App: appID, Name: name}
	return s.db.Write(ctx, "deleting a calendar", func(ctx context.Context, c sqldb.Runner) error {
		had, err := s.lockCalendar(ctx, c, key)
		if err != nil {
			return err
		}
		if had.Version == 0 {
			return timer.NotFound("calendar", name)
		}
		var user struct {
			ID   int64  `db:"id"`
			Name string `db:"name"`
		}
		err = s.db.SelectOne(
			ctx,
			c,
			&user,
			sqldb.Stmt(
				"SELECT t.id,t.name FROM timer_calendars u"+s.db.Dialect.ByPrimary+
					s.db.Dialect.JoinOrdered+"timers t"+s.db.Dialect.ByPrimary+
					" ON t.id=u.timer_id WHERE u.app_id=",
			).
				Int(appID).
				Add(" AND u.name=").
				Bind(name).
				Add(" AND t.status<>").
				Int(timers.RowDeleted).
				Add(" ORDER BY u.timer_id LIMIT 1"),
		)
		switch {
		case err == nil:
			return timer.Conflict(
				"calendar",
				fmt.Sprintf("the timer %d (%q) names it", user.ID, user.Name),
			)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		_, err = s.db.Exec(
			ctx,
			c,
			sqldb.Stmt("DELETE FROM calendars WHERE app_id=").
				Int(appID).
				Add(" AND name=").
				Bind(name),
		)
		if err != nil {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		e := store.AuditCalendarPut(name, had.Content, nil)
		return s.audit.Add(ctx, c, appID, nowMS, e, nil)
	})
}
