package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// calendarUse is the use of a calendar by a timer that is not deleted.
type calendarUse struct {
	nameKey

	timer timer.ID
}

func timerUses(t *timer.Timer) (uses []calendarUse) {
	for _, name := range t.Definition.Schedule.Calendars {
		uses = append(uses, calendarUse{nameKey{t.AppID, name}, t.ID})
	}
	return uses
}

// insertUses writes which calendars timers name, for PutCalendar to find its timers. The caller has
// the calendars locked for sharing. A replacement therefore comes before and is read, or comes
// after and finds the timer.
func (s *Store) insertUses(ctx context.Context, c sqldb.Runner, uses []calendarUse) error {
	for part := range sqldb.Batches(sortedUses(uses)) {
		q := sqldb.Stmt("INSERT INTO timer_calendars (app_id,name,timer_id) VALUES ")
		for i, u := range part {
			addUse(q, i == 0, u)
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.OnConflictNothing("app_id")),
		); err != nil {
			return err
		}
	}
	return nil
}

// deleteUses deletes uses of calendars.
func (s *Store) deleteUses(ctx context.Context, c sqldb.Runner, uses []calendarUse) error {
	for part := range sqldb.Batches(sortedUses(uses)) {
		q := sqldb.Stmt(
			s.db.Dialect.DeleteFrom(
				"timer_calendars",
				"PRIMARY",
			) + " WHERE (app_id,name,timer_id) IN (" + s.db.Dialect.Tuples,
		)
		for i, u := range part {
			addUse(q, i == 0, u)
		}
		if _, err := s.db.Exec(ctx, c, q.Add(")")); err != nil {
			return err
		}
	}
	return nil
}

func sortedUses(uses []calendarUse) []calendarUse {
	slices.SortFunc(
		uses,
		func(a, b calendarUse) int { return cmp.Or(a.compare(b.nameKey), cmp.Compare(a.timer, b.timer)) },
	)
	return slices.Compact(uses)
}

func addUse(q *sqldb.Statement, first bool, u calendarUse) {
	q.Open(first).Int(u.app).Add(",").Bind(u.name).Add(",").Int(int64(u.timer)).Add(")")
}

// calendars has contents by name.
type calendars map[nameKey]timer.Calendar

// of returns the calendars that a timer names, in that order. It leaves out missing ones: the
// planner returns an error if there are fewer calendars than names.
func (m calendars) of(t *timer.Timer) (out []timer.Calendar) {
	for _, name := range t.Definition.Schedule.Calendars {
		if c, ok := m[nameKey{t.AppID, name}]; ok {
			out = append(out, c)
		}
	}
	return out
}

// shareCalendars reads calendars and locks them for sharing until the end of the transaction. A
// later change of one replans what is planned with it here.
func (s *Store) shareCalendars(
	ctx context.Context,
	c sqldb.Runner,
	keys []nameKey,
) (calendars, error) {
	apps := make([]int64, len(keys))
	for i := range keys {
		apps[i] = keys[i].app
	}
	if err := s.db.GuardShared(ctx, c, apps); err != nil {
		return nil, err
	}
	return s.readCalendars(ctx, c, keys, s.db.Dialect.ForShare)
}

func (s *Store) readCalendars(
	ctx context.Context,
	c sqlx.QueryerContext,
	keys []nameKey,
	lock string,
) (calendars, error) {
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // a nil map is an empty one
	}
	found := make(calendars, len(keys))
	for part := range sqldb.Batches(distinct(keys)) {
		var rows []struct {
			App     int64  `db:"app_id"`
			Name    string `db:"name"`
			Content []byte `db:"content"`
		}
		q := inKeys(sqldb.Stmt(
			"SELECT app_id,name,content FROM calendars WHERE ",
		), s.db.Dialect, "name", part)
		if err := s.db.SelectAll(ctx, c, &rows, q.Add(lock)); err != nil {
			return nil, err
		}
		for _, r := range rows {
			var content timer.Calendar
			if err := json.Unmarshal(r.Content, &content); err != nil {
				return nil, fmt.Errorf("reading the calendar %q: %w", r.Name, err)
			}
			found[nameKey{r.App, r.Name}] = content
		}
	}
	return found, nil
}

// fillCalendars adds the contents of their calendars to timers, with one statement. It needs no
// locks if the caller has the timers' rows locked: PutCalendar has to wait for these rows to
// request a replan.
func (s *Store) fillCalendars(ctx context.Context, c sqlx.QueryerContext, ts []timer.Timer) error {
	var keys []nameKey
	for i := range ts {
		for _, u := range timerUses(&ts[i]) {
			keys = append(keys, u.nameKey)
		}
	}
	found, err := s.readCalendars(ctx, c, keys, "")
	if err != nil {
		return err
	}
	for i := range ts {
		ts[i].Calendars = found.of(&ts[i])
	}
	return nil
}
