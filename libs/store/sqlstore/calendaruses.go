package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

// calendarUse says that a live timer names a calendar.
type calendarUse struct {
	nameKey

	timer timer.ID
}

// usesOf returns what new timers name.
func usesOf(fresh []*known) (uses []calendarUse) {
	for _, t := range fresh {
		uses = append(uses, timerUses(&t.timer)...)
	}
	return uses
}

func timerUses(t *timer.Timer) (uses []calendarUse) {
	for _, name := range t.Definition.Schedule.Calendars {
		uses = append(uses, calendarUse{nameKey{t.AppID, name}, t.ID})
	}
	return uses
}

// insertUses writes which calendars timers name. Who replaces a calendar finds its timers by this:
// whoever inserts has its calendars locked for sharing, so that the replacement comes before, and
// is read, or after, and finds the timer.
func (s *Store) insertUses(ctx context.Context, c runner, uses []calendarUse) error {
	for part := range batches(sortedUses(uses)) {
		q := stmt("INSERT INTO timer_calendars (app_id,name,timer_id) VALUES ")
		for i, u := range part {
			q.use(i == 0, u)
		}
		if _, err := s.exec(ctx, c, q.add(s.dialect.nothing("app_id"))); err != nil {
			return err
		}
	}
	return nil
}

// deleteUses forgets what timers named.
func (s *Store) deleteUses(ctx context.Context, c runner, uses []calendarUse) error {
	for part := range batches(sortedUses(uses)) {
		q := stmt(
			s.dialect.deleteFrom(
				"timer_calendars",
				"PRIMARY",
			) + " WHERE (app_id,name,timer_id) IN (" + s.dialect.tuples,
		)
		for i, u := range part {
			q.use(i == 0, u)
		}
		if _, err := s.exec(ctx, c, q.add(")")); err != nil {
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

func (q *statement) use(first bool, u calendarUse) {
	q.open(first).int(u.app).add(",").bind(u.name).add(",").int(int64(u.timer)).add(")")
}

// calendars are contents by name.
type calendars map[nameKey]timer.Calendar

// of returns the contents of those calendars that a timer names, in that order. One that is missing
// is left out: to the planner, fewer than there are names is an error.
func (m calendars) of(t *timer.Timer) (out []timer.Calendar) {
	for _, name := range t.Definition.Schedule.Calendars {
		if c, ok := m[nameKey{t.AppID, name}]; ok {
			out = append(out, c)
		}
	}
	return out
}

// shareCalendars reads calendars and keeps others from changing or deleting them until the end of
// the transaction: what is planned with them here is planned anew should they change later.
func (s *Store) shareCalendars(
	ctx context.Context,
	c sqlx.QueryerContext,
	keys []nameKey,
) (calendars, error) {
	return s.readCalendars(ctx, c, keys, s.dialect.forShare)
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
	for part := range batches(distinct(keys)) {
		var rows []struct {
			App     int64  `db:"app_id"`
			Name    string `db:"name"`
			Content []byte `db:"content"`
		}
		q := stmt(
			"SELECT app_id,name,content FROM calendars WHERE ",
		).nameKeys(s.dialect, "name", part)
		if err := s.selectAll(ctx, c, &rows, q.add(lock)); err != nil {
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

// fillCalendars gives timers the contents of their calendars, all by one statement. Where a timer's
// row is locked no more is needed: who replaces a calendar has to wait for the row then, to ask for
// a new plan.
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
