package memstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// fillCalendars adds the contents of its calendars to a timer.
func (s *Store) fillCalendars(t *row) {
	t.Calendars = nil
	for _, name := range t.Definition.Schedule.Calendars {
		if c := s.calendars[nameKey{t.App, name}]; c != nil {
			t.Calendars = append(t.Calendars, c.Calendar)
		}
	}
}

// noCalendar returns an error if the app does not have a calendar that a schedule names.
func (s *Store) noCalendar(app string, d *timer.Schedule) error {
	for i, name := range d.Calendars {
		if s.calendars[nameKey{app, name}] == nil {
			return store.NoCalendar(i, name)
		}
	}
	return nil
}

// timersUsing returns the timers that name a calendar, without deleted ones.
func (s *Store) timersUsing(app, name string) (ts []*row) {
	for _, t := range s.rows {
		if t.App == app && t.Status != timer.StatusDeleted &&
			slices.Contains(t.Definition.Schedule.Calendars, name) {
			ts = append(ts, t)
		}
	}
	return ts
}

// PutCalendar creates or replaces a calendar and requests a replan of the timers that name it.
func (s *Store) PutCalendar(
	ctx context.Context,
	app string,
	c timer.Calendar,
	ifVersion int64,
) (store.CalendarVersion, error) {
	defer s.lockToWrite(ctx)()
	s.app(app)
	if err := s.refuseDeleted(app); err != nil {
		return store.CalendarVersion{}, err
	}
	var was any
	next := &store.CalendarVersion{Calendar: c, Version: 1, UpdatedMS: s.nowMS()}
	had := s.calendars[nameKey{app, c.Name}]
	if had != nil {
		next.Version, was = had.Version+1, had.Calendar
	}
	if ifVersion != 0 && max(ifVersion, 0) != next.Version-1 {
		return store.CalendarVersion{}, timer.Conflict(
			"version",
			"the calendar has another version by now",
		)
	}
	if had != nil {
		same, err := sameCalendar(&had.Calendar, &c)
		if err != nil || same {
			return *had, err
		}
	}
	if err := s.auditCalendar(ctx, app, c.Name, was, c); err != nil {
		return store.CalendarVersion{}, err
	}
	s.calendars[nameKey{app, c.Name}] = next
	for _, t := range s.timersUsing(app, c.Name) {
		s.fillCalendars(t)
		s.requestReplan(t, next.UpdatedMS)
	}
	return *next, nil
}

// sameCalendar compares calendars by their JSON, in which an empty list is the same as none.
func sameCalendar(was, is *timer.Calendar) (bool, error) {
	a, err := json.Marshal(was)
	if err != nil {
		return false, fmt.Errorf("encoding the calendar: %w", err)
	}
	b, err := json.Marshal(is)
	if err != nil {
		return false, fmt.Errorf("encoding the calendar: %w", err)
	}
	return bytes.Equal(a, b), nil
}

// requestReplan sets Replan of a timer.
func (s *Store) requestReplan(t *row, nowMS int64) {
	if t.Replan, t.replanCalendar = true, true; t.Status == timer.StatusActive {
		t.ExpandAtMS = nowMS
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
	}
}

// Calendar returns a calendar.
func (s *Store) Calendar(_ context.Context, app, name string) (store.CalendarVersion, error) {
	defer s.lock()()
	c := s.calendars[nameKey{app, name}]
	if c == nil {
		return store.CalendarVersion{}, timer.NotFound("calendar", name)
	}
	return *c, nil
}

// Calendars returns an app's calendars in order of name.
func (s *Store) Calendars(
	_ context.Context,
	app, after string,
	limit int,
) (all []store.CalendarVersion, err error) {
	defer s.lock()()
	for k, c := range s.calendars {
		if k.app == app && k.name > after {
			all = append(all, *c)
		}
	}
	slices.SortFunc(
		all,
		func(a, b store.CalendarVersion) int { return strings.Compare(a.Name, b.Name) },
	)
	return all[:min(len(all), limit)], nil
}

// TimersOfCalendar returns the timers that name a calendar in order of id.
func (s *Store) TimersOfCalendar(
	_ context.Context,
	app, name string,
	after timer.ID,
	limit int,
) (ids []timer.ID, err error) {
	defer s.lock()()
	for _, t := range s.timersUsing(app, name) {
		if t.ID > after {
			ids = append(ids, t.ID)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), limit)], nil
}

// DeleteCalendar deletes a calendar that no timer names.
func (s *Store) DeleteCalendar(ctx context.Context, app, name string) error {
	defer s.lockToWrite(ctx)()
	had := s.calendars[nameKey{app, name}]
	if had == nil {
		return timer.NotFound("calendar", name)
	}
	if ts := s.timersUsing(app, name); len(ts) > 0 {
		return timer.Conflict(
			"calendar",
			fmt.Sprintf("the timer %d (%q) names it", ts[0].ID, ts[0].Name),
		)
	}
	delete(s.calendars, nameKey{app, name})
	return s.auditCalendar(ctx, app, name, had.Calendar, nil)
}
