package executor

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	calendarsKept = 1000
	// how old a calendar may be that a fixed delay's next fire is planned by.
	calendarsFor = 10 * time.Second
)

// calendars are those that fixed delays name: only they are planned here.
type calendars struct {
	store Store
	known *lru.Cache[[2]string, knownCalendar]
}

type knownCalendar struct {
	calendar timer.Calendar
	read     time.Time
}

func newCalendars(st Store) (*calendars, error) {
	known, err := lru.New[[2]string, knownCalendar](calendarsKept)
	if err != nil {
		return nil, fmt.Errorf("making the cache of calendars: %w", err)
	}
	return &calendars{store: st, known: known}, nil
}

// of returns the calendars that a definition names.
func (c *calendars) of(
	ctx context.Context,
	app string,
	d *timer.Definition,
) ([]timer.Calendar, error) {
	var out []timer.Calendar
	for _, name := range d.Schedule.Calendars {
		key := [2]string{app, name}
		k, ok := c.known.Get(key)
		if !ok || time.Since(k.read) > calendarsFor {
			v, err := c.store.Calendar(ctx, app, name)
			if err != nil {
				return nil, fmt.Errorf("reading calendar %q: %w", name, err)
			}
			k = knownCalendar{v.Calendar, time.Now()}
			c.known.Add(key, k)
		}
		out = append(out, k.calendar)
	}
	return out, nil
}
