package timers

import (
	"errors"

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

// checkReadable returns an *UnreadableError of the timers that cannot be read, or nil.
func checkReadable(ts []timer.Timer) error {
	var bad UnreadableError
	for i := range ts {
		if why := ts[i].Definition.Unreadable; why != "" {
			bad.Timers, bad.Errs = append(bad.Timers, ts[i].ID), append(bad.Errs, errors.New(why))
		}
	}
	if len(bad.Timers) > 0 {
		return &bad
	}
	return nil
}
