package timers

import (
	"context"
	"errors"
	"iter"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// UnreadableError is of timers that this release cannot read, by their definitions or calendars: a
// newer one has written these, or they are damaged.
type UnreadableError struct {
	Timers []timer.ID
	Errs   []error // of each
}

// Error returns the first error, which speaks for all: their number has no limit.
func (e *UnreadableError) Error() string { return e.Errs[0].Error() }

// checkReadable returns an *UnreadableError of the timers that cannot be read, or nil. Nothing needs
// the definition of a deleted timer: its backfills are cancelled.
func checkReadable(ts iter.Seq[*timer.Timer]) error {
	var bad UnreadableError
	for t := range ts {
		if why := t.Definition.Unreadable; why != "" && t.Status != timer.StatusDeleted {
			bad.Timers, bad.Errs = append(bad.Timers, t.ID), append(bad.Errs, errors.New(why))
		}
	}
	if len(bad.Timers) > 0 {
		return &bad
	}
	return nil
}

func pointers(ts []timer.Timer) iter.Seq[*timer.Timer] {
	return func(yield func(*timer.Timer) bool) {
		for i := range ts {
			if !yield(&ts[i]) {
				return
			}
		}
	}
}

// References returns the calendars and attributes that lead to a timer. If its definition cannot be
// read, the rows tell. The caller has the timer's row locked, so nobody else writes them.
func (s *Rows) References(
	ctx context.Context, c sqlx.QueryerContext, t *timer.Timer,
) (uses []CalendarUse, attributes []Attribute, err error) {
	if t.Definition.Unreadable == "" {
		return TimerUses(t), TimerAttributes(t), nil
	}
	var names []string
	// No index leads from a timer to its calendars: this reads those of all timers of the app.
	q := sqldb.Stmt("SELECT name FROM timer_calendars WHERE app_id=").Int(t.AppID).
		Add(" AND timer_id=").Int(int64(t.ID))
	if err := s.db.SelectAll(ctx, c, &names, q); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		uses = append(uses, CalendarUse{NameKey{t.AppID, name}, t.ID})
	}
	var rows []struct {
		App   int64  `db:"app_id"`
		Kind  int64  `db:"kind"`
		Name  string `db:"name"`
		Value string `db:"value"`
	}
	q = sqldb.Stmt("SELECT app_id,kind,name,value FROM timer_attributes WHERE timer_id=").
		Int(int64(t.ID))
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		attributes = append(attributes, Attribute{r.App, r.Kind, r.Name, r.Value, t.ID})
	}
	return uses, attributes, nil
}
