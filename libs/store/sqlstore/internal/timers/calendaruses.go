package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// CalendarUse is the use of a calendar by a timer that is not deleted.
type CalendarUse struct {
	NameKey

	timer timer.ID
}

// TimerUses returns the calendars that a timer's definition names.
func TimerUses(t *timer.Timer) (uses []CalendarUse) {
	for _, name := range t.Definition.Schedule.Calendars {
		uses = append(uses, CalendarUse{NameKey{t.AppID, name}, t.ID})
	}
	return uses
}

// InsertUses writes which calendars timers name, for PutCalendar to find its timers. The caller has
// the calendars locked for sharing. A replacement therefore comes before and is read, or comes
// after and finds the timer.
func (s *Rows) InsertUses(ctx context.Context, c sqldb.Runner, uses []CalendarUse) error {
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

// DeleteUses deletes uses of calendars.
func (s *Rows) DeleteUses(ctx context.Context, c sqldb.Runner, uses []CalendarUse) error {
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

func sortedUses(uses []CalendarUse) []CalendarUse {
	slices.SortFunc(
		uses,
		func(a, b CalendarUse) int { return cmp.Or(a.Compare(b.NameKey), cmp.Compare(a.timer, b.timer)) },
	)
	return slices.Compact(uses)
}

func addUse(q *sqldb.Statement, first bool, u CalendarUse) {
	q.Open(first).Int(u.App).Add(",").Bind(u.Name).Add(",").Int(int64(u.timer)).Add(")")
}

// Calendars has contents by name.
type Calendars map[NameKey]timer.Calendar

// Of returns the calendars that a timer names, in that order. It leaves out missing ones: the
// planner returns an error if there are fewer calendars than names.
func (m Calendars) Of(t *timer.Timer) (out []timer.Calendar) {
	for _, name := range t.Definition.Schedule.Calendars {
		if c, ok := m[NameKey{t.AppID, name}]; ok {
			out = append(out, c)
		}
	}
	return out
}

// Missing returns an error if the app does not have a calendar that a schedule names.
func (m Calendars) Missing(app int64, s *timer.Schedule) error {
	for i, name := range s.Calendars {
		if _, ok := m[NameKey{app, name}]; !ok {
			return store.NoCalendar(i, name)
		}
	}
	return nil
}

// ShareCalendars reads calendars and locks them for sharing until the end of the transaction. A
// later change of one replans what is planned with it here.
func (s *Rows) ShareCalendars(
	ctx context.Context,
	c sqldb.Runner,
	keys []NameKey,
) (Calendars, error) {
	apps := make([]int64, len(keys))
	for i := range keys {
		apps[i] = keys[i].App
	}
	if err := s.db.GuardShared(ctx, c, apps); err != nil {
		return nil, err
	}
	found, bad, err := s.readCalendars(ctx, c, keys, s.db.Dialect.ForShare)
	for _, err := range bad {
		return nil, err
	}
	return found, err
}

// readCalendars returns the calendars that exist. bad has those that this release cannot read.
func (s *Rows) readCalendars(
	ctx context.Context,
	c sqlx.QueryerContext,
	keys []NameKey,
	lock string,
) (found Calendars, bad map[NameKey]error, err error) {
	if len(keys) == 0 {
		return nil, nil, nil
	}
	found, bad = make(Calendars, len(keys)), map[NameKey]error{}
	for part := range sqldb.Batches(DistinctKeys(keys)) {
		var rows []struct {
			App     int64  `db:"app_id"`
			Name    string `db:"name"`
			Content []byte `db:"content"`
		}
		q := InKeys(sqldb.Stmt(
			"SELECT app_id,name,content FROM calendars WHERE ",
		), s.db.Dialect, "name", part)
		if err := s.db.SelectAll(ctx, c, &rows, q.Add(lock)); err != nil {
			return nil, nil, err
		}
		for _, r := range rows {
			var content timer.Calendar
			if err := json.Unmarshal(r.Content, &content); err != nil {
				bad[NameKey{r.App, r.Name}] = fmt.Errorf("reading the calendar %q: %w", r.Name, err)
				continue
			}
			found[NameKey{r.App, r.Name}] = content
		}
	}
	return found, bad, nil
}

// fillCalendars adds the contents of their calendars to timers, with one statement. It needs no
// locks if the caller has the timers' rows locked: PutCalendar has to wait for these rows to
// request a replan. Timers with one that cannot be read are marked as unreadable.
func (s *Rows) fillCalendars(ctx context.Context, c sqlx.QueryerContext, ts []timer.Timer) error {
	var keys []NameKey
	for i := range ts {
		for _, u := range TimerUses(&ts[i]) {
			keys = append(keys, u.NameKey)
		}
	}
	found, bad, err := s.readCalendars(ctx, c, keys, "")
	if err != nil {
		return err
	}
	for i := range ts {
		ts[i].Calendars = found.Of(&ts[i])
		for _, u := range TimerUses(&ts[i]) {
			if err := bad[u.NameKey]; err != nil {
				ts[i].Definition.Unreadable = err.Error()
				break
			}
		}
	}
	return nil
}
