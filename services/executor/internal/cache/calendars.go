package cache

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	calendarCacheSize = 1000
	// calendarMaxAge is the maximum age of a calendar used to plan a successor.
	calendarMaxAge = 10 * time.Second
)

// Calendars caches the calendars used to plan successors and to count late fires.
type Calendars struct {
	store Store
	cache *lru.Cache[[2]string, cachedCalendar]
}

type cachedCalendar struct {
	calendar timer.Calendar
	read     time.Time
}

func newCalendars(st Store) *Calendars {
	return &Calendars{store: st, cache: newLRU[[2]string, cachedCalendar](calendarCacheSize)}
}

// Cached returns the calendars of these names, if all are cached and recent.
func (c *Calendars) Cached(app string, names []string) (out []timer.Calendar, ok bool) {
	for _, name := range names {
		k, ok := c.cache.Get([2]string{app, name})
		if !ok || time.Since(k.read) > calendarMaxAge {
			return nil, false
		}
		out = append(out, k.calendar)
	}
	return out, true
}

// CalendarQuestion asks for calendars of an app.
type CalendarQuestion struct {
	App   string
	Names []string
}

// Of returns calendars. It reads those that are not cached or too old. One that was deleted excludes
// nothing: the latest version of the timer does not name it, or the timer is deleted, but an earlier
// version's fire must end all the same.
func (c *Calendars) Of(ctx context.Context, q CalendarQuestion) ([]timer.Calendar, error) {
	var out []timer.Calendar
	for _, name := range q.Names {
		key := [2]string{q.App, name}
		k, ok := c.cache.Get(key)
		if !ok || time.Since(k.read) > calendarMaxAge {
			v, err := c.store.Calendar(ctx, q.App, name)
			switch {
			case timer.CodeOf(err) == timer.CodeNotFound:
				v.Calendar = timer.Calendar{Name: name}
			case err != nil:
				return nil, fmt.Errorf("reading calendar %q: %w", name, err)
			}
			k = cachedCalendar{v.Calendar, time.Now()}
			c.cache.Add(key, k)
		}
		out = append(out, k.calendar)
	}
	return out, nil
}
