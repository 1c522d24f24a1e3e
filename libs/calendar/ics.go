package calendar

import (
	"fmt"
	"io"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Limits of ParseICS.
const (
	MaxICSBytes = 1 << 20
	// EndlessUntil is the last year of rules without an end. Reading the file again later extends
	// them.
	EndlessUntil = 2099

	// maxNeverMatching limits rules without matches. Each costs up to a tenth of a second.
	maxNeverMatching = 3
	// maxWork limits the occurrences of all events, the days that they cover, and the days, weeks,
	// months or years in which a rule has none.
	maxWork = 1_000_000
)

// ICS configures ParseICS.
type ICS struct {
	Zone string    // zone of the calendar for which the dates are; empty if it has none
	Now  time.Time // see ICSDates
}

// ICSDates is the result of ParseICS: dates ("2026-12-25"), ascending, without duplicates, at most
// timer.MaxCalendarDates.
//
// Rules without an end continue up to EndlessUntil. If that yields too many dates, these rules
// begin with the year before Now's. If there are still too many, they end with the last year whose
// dates all fit. EndlessFrom and EndlessUntil are then the first and the last day of these years.
type ICSDates struct {
	Dates []string
	// EndlessFrom and EndlessUntil are empty if no rule is endless. EndlessFrom is also empty if
	// those rules keep their own start.
	EndlessFrom, EndlessUntil string
	// TimedEvents is how many events begin at a time of day. They cover whole dates, too.
	TimedEvents int
	// UnknownZones are TZIDs that name no zone, in order, at most 10. Times with them count as in the
	// calendar's zone. Empty if the calendar has none: then the zones do not matter.
	UnknownZones []string
}

// ParseICS reads the dates that the events of an iCalendar file (RFC 5545) cover. Its error is a
// *timer.Error (invalid) of the field "body". It names the line, the property, and what was
// expected.
//
// An event covers every date that it touches, on the wall clock of the calendar's zone if there is
// one. Dates, and times without a known zone, apply to every wall clock. If the calendar has no
// zone, dates and times count as written, whatever their TZID. Times in UTC are then converted to
// X-WR-TIMEZONE, if the file has it.
//
// Supported are rules from DAILY to YEARLY, RDATE, EXDATE, DURATION and changed occurrences
// (RECURRENCE-ID, also with RANGE=THISANDFUTURE). Cancelled events and occurrences are ignored. A
// rule is expanded on the event's own wall clock, in UTC or a zone, and the occurrences are then
// converted to instants. A TZID is the IANA zone of that name; if there is none, the file's
// VTIMEZONE applies. A day of an event is a day of its wall clock, even if it has 23 hours.
//
// Rules that violate RFC 5545 are rejected, so that no mistake excludes decades. Examples are
// numbers out of bounds (COUNT=0), duplicate or conflicting parts, and an UNTIL before DTSTART. For
// that UNTIL the RFC does not say whether DTSTART occurs, and implementations differ. An UNTIL that
// is a date includes that day. A BYSETPOS has at most 12 numbers.
//
// Occurrences outside the years 1970 to 2199, and all components but events and their zones, are
// ignored.
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

// icsFile is the state of reading a file.
type icsFile struct {
	own    *clock              // the calendar's clock; nil if it has no zone
	zone   *clock              // for the dates of times in UTC
	zones  map[string]*icsZone // zones of the current object by TZID
	clocks map[string]*clock   // clocks by TZID

	listed    dayset // covered by events with an end
	endless   dayset // covered by rules without an end
	isEndless bool   // an endless rule exists

	timed         int // events that begin at a time of day
	unknownZones  []string
	neverMatching int
	work          int
}

func (c *icsFile) read(o *icsObject) error {
	c.zones, c.clocks, c.zone = o.zonesByID(), map[string]*clock{}, utc
	for _, p := range o.properties {
		if p.name == "X-WR-TIMEZONE" {
			if z := clockOf(p.value); z != nil { // an unknown zone is free text
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
