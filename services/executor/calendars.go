package executor

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	calendarCacheSize = 1000
	// calendarMaxAge is the maximum age of a calendar used to plan a successor.
	calendarMaxAge = 10 * time.Second
)

// calendarStore reads calendars.
type calendarStore interface {
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
}

// calendars caches the calendars used to plan successors and to count late fires.
type calendars struct {
	store calendarStore
	cache *lru.Cache[[2]string, cachedCalendar]
}

type cachedCalendar struct {
	calendar timer.Calendar
	read     time.Time
}

func newCalendars(st calendarStore) (*calendars, error) {
	cache, err := lru.New[[2]string, cachedCalendar](calendarCacheSize)
	if err != nil {
		return nil, fmt.Errorf("making the cache of calendars: %w", err)
	}
	return &calendars{store: st, cache: cache}, nil
}

// cached returns the calendars of these names, if all are cached and recent.
func (c *calendars) cached(app string, names []string) (out []timer.Calendar, ok bool) {
	for _, name := range names {
		k, ok := c.cache.Get([2]string{app, name})
		if !ok || time.Since(k.read) > calendarMaxAge {
			return nil, false
		}
		out = append(out, k.calendar)
	}
	return out, true
}

// of returns the calendars of these names.
func (c *calendars) of(ctx context.Context, app string, names []string) ([]timer.Calendar, error) {
	var out []timer.Calendar
	for _, name := range names {
		key := [2]string{app, name}
		k, ok := c.cache.Get(key)
		if !ok || time.Since(k.read) > calendarMaxAge {
			v, err := c.store.Calendar(ctx, app, name)
			if err != nil {
				return nil, fmt.Errorf("reading calendar %q: %w", name, err)
			}
			k = cachedCalendar{v.Calendar, time.Now()}
			c.cache.Add(key, k)
		}
		out = append(out, k.calendar)
	}
	return out, nil
}

// calendarsOf returns the calendars of a definition of the candidate's timer.
func (s *Service) calendarsOf(c *candidate, d *timer.Definition) ([]timer.Calendar, progress) {
	if c.calendars != nil && c.calendars.of == d {
		return c.calendars.value, goes
	}
	names := d.Schedule.Calendars
	if found, ok := s.calendars.cached(c.entry.App, names); ok {
		return found, goes
	}
	return nil, ask(s, s.lookups.calendars, c, calendarQuestion{c.entry.App, names},
		func(found []timer.Calendar, _ time.Time) { c.calendars = &calendarAnswer{d, found} })
}
