package calendar

import (
	"fmt"
	"io"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Limits of what ParseICS reads.
const (
	MaxICSBytes = 1 << 20
	// EndlessUntil is the year with which a rule without an end ends. A file that is read again
	// meanwhile goes on.
	EndlessUntil = 2099

	// rules that never match: each costs up to a tenth of a second to find out.
	maxNeverMatching = 3
	maxWork          = 1_000_000 // occurrences of all events, and days that they cover
)

// ICS is how an iCalendar file is read.
type ICS struct {
	Zone string    // of the calendar that the dates are for; empty where it has none of its own
	Now  time.Time // see ICSDates
}

// ICSDates is what ParseICS read: dates, "2026-12-25" each, ascending, without doubles; at most
// timer.MaxCalendarDates.
//
// Rules without an end go on up to EndlessUntil. Where there would be too many dates, those rules
// begin with the year before Now's, and if that does not do, they end with the last year for which
// all dates find a place. The first and the last day of their years are then given.
type ICSDates struct {
	Dates []string
	// empty where no rule is without an end; EndlessFrom also where such rules begin as they say.
	EndlessFrom, EndlessUntil string
}

// ParseICS reads the dates that the events of an iCalendar file (RFC 5545) cover. Its error is a
// *timer.Error (invalid) of the field "body" that names the line, the property, and what was
// expected.
//
// An event covers every date that it touches: by the wall clock of the calendar's own zone, where
// it has one. Dates, and times without a zone that is known, are what they are anywhere. Where the
// calendar has no zone, the dates are those that the file writes, whatever their TZID, and times in
// UTC are dates of X-WR-TIMEZONE, if the file has it.
//
// Rules of DAILY to YEARLY, RDATE, EXDATE, DURATION and changed occurrences (RECURRENCE-ID, also
// with RANGE=THISANDFUTURE) count. Cancelled events and occurrences do not. A rule is expanded on
// the event's own wall clock, be that UTC or a zone, and its occurrences become instants then. A
// TZID is the IANA zone of that name; where there is none, the file's own VTIMEZONE rules. A day of
// an event is a day of its wall clock, also where it has 23 hours.
//
// Rules that break RFC 5545 are refused, so that no slip excludes decades: numbers out of bounds,
// such as COUNT=0; parts that are there twice or do not go together; an UNTIL before DTSTART. Of
// that last one the RFC does not say whether DTSTART itself occurs, and readers differ. An UNTIL
// that is a date includes that day.
//
// Occurrences outside the years 1970 to 2199, and everything but events and their zones, are passed
// over.
func ParseICS(r io.Reader, how ICS) (*ICSDates, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxICSBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the iCalendar file: %w", err)
	}
	if len(body) > MaxICSBytes {
		return nil, icsError("is longer than %d bytes", MaxICSBytes)
	}
	objects, err := readObjects(string(body))
	if err != nil {
		return nil, icsError("is not iCalendar: %v", err)
	}
	c := icsFile{}
	if how.Zone != "" {
		if _, err := zone.Load(how.Zone); err != nil {
			return nil, timer.Invalid("time_zone", err.Error())
		}
		c.own = clockOf(how.Zone)
	}
	for i := range objects {
		if err := c.read(&objects[i]); err != nil {
			return nil, err
		}
	}
	return c.dates(how.Now)
}

func icsError(format string, args ...any) error {
	return timer.Invalid("body", fmt.Sprintf(format, args...))
}

// icsFile is what was read of a file so far.
type icsFile struct {
	own    *clock            // the calendar's; nil where it has none
	zone   *clock            // whose dates times in UTC are
	zones  []icsZone         // of the object that is read
	clocks map[string]*clock // those that its TZIDs name

	listed    dayset // covered by what has an end
	endless   dayset // covered by rules without an end
	isEndless bool   // there is such a rule

	neverMatching int
	work          int
}

func (c *icsFile) read(o *icsObject) error {
	c.zones, c.clocks, c.zone = o.zones, map[string]*clock{}, utc
	for _, p := range o.properties {
		if p.name == "X-WR-TIMEZONE" {
			if z := clockOf(p.value); z != nil { // what is no zone is somebody's free text
				c.zone = z
			}
		}
	}
	changed, err := c.readChanges(o.events)
	if err != nil {
		return err
	}
	for i := range o.events {
		e := &o.events[i]
		ch := changed[e.text("UID")]
		if e.cancelled() || e.first("RECURRENCE-ID") != nil && !ch.effective[e] {
			continue
		}
		if err := c.event(e, ch); err != nil {
			return eventError(e, err)
		}
	}
	return nil
}

func eventError(e *icsEvent, err error) error {
	name := e.text("SUMMARY")
	if name == "" {
		name = e.text("UID")
	}
	return icsError("has an event %q that cannot be read: %v", clip(name), err)
}
