package calendar

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Limits of what ParseICS reads.
const (
	MaxICSBytes = 1 << 20
	// EndlessUntil is the year with which a rule without an end ends. A file that is read again meanwhile goes on.
	EndlessUntil = 2099

	maxBarren = 3      // rules that never match: each costs up to a tenth of a second to find out
	maxEvents = 50_000 // occurrences, of all events
)

// ParseICS reads the dates that the events of an iCalendar file (RFC 5545) cover, "2026-12-25" each, ascending, without doubles; at most
// timer.MaxCalendarDates. Its error is a *timer.Error (invalid) without a field.
//
// An event covers every date that it touches, as the file writes them: what TZID they are of does not matter. Times in UTC are dates of
// X-WR-TIMEZONE, where the file has it. Rules of DAILY to YEARLY, RDATE, EXDATE, DURATION and
// changed occurrences (RECURRENCE-ID) count; events that are cancelled do not. Everything but events is passed over.
func ParseICS(r io.Reader) ([]string, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxICSBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the iCalendar file: %w", err)
	}
	if len(body) > MaxICSBytes {
		return nil, icsError("is longer than %d bytes", MaxICSBytes)
	}
	// Properties between the components are against the standard and common.
	file, err := ics.ParseCalendarWithOptions(strings.NewReader(string(body)), ics.WithUnknownPropertyHandler(ics.AcceptUnknownPropertyHandler))
	if err != nil {
		return nil, icsError("is not iCalendar: %v", err)
	}
	if file == nil || len(file.Components)+len(file.CalendarProperties) == 0 {
		return nil, icsError("is not iCalendar: it is empty")
	}
	c := icsFile{days: map[int32]bool{}, changed: map[string]map[int64]bool{}, zone: time.UTC}
	if err := c.read(file); err != nil {
		return nil, err
	}
	return c.dates(), nil
}

func icsError(format string, args ...any) error {
	return &timer.Error{Code: timer.CodeInvalid, Msg: "the file " + fmt.Sprintf(format, args...)}
}

// icsFile is what was read of a file so far.
type icsFile struct {
	zone     *time.Location            // of times in UTC
	changed  map[string]map[int64]bool // UID → occurrences that have an event of their own
	days     map[int32]bool
	barren   int
	occurred int
}

func (c *icsFile) read(file *ics.Calendar) error {
	for _, p := range file.CalendarProperties {
		if p.IANAToken == string(ics.PropertyXWRTimezone) {
			if z, err := zone.Load(p.Value); err == nil && p.Value != "" { // what is no zone is somebody's free text
				c.zone = z.Location()
			}
		}
	}
	events := file.Events()
	for _, e := range events {
		if p := e.GetProperty(ics.ComponentPropertyRecurrenceId); p != nil {
			at, err := c.instant(p)
			if err != nil {
				return eventError(e, err)
			}
			uid := e.Id()
			if c.changed[uid] == nil {
				c.changed[uid] = map[int64]bool{}
			}
			c.changed[uid][at.Unix()] = true
		}
	}
	for _, e := range events {
		if p := e.GetProperty(ics.ComponentPropertyStatus); p != nil && strings.EqualFold(p.Value, string(ics.ObjectStatusCancelled)) {
			continue
		}
		if err := c.event(e); err != nil {
			return eventError(e, err)
		}
	}
	return nil
}

func eventError(e *ics.VEvent, err error) error {
	name := e.Id()
	if p := e.GetProperty(ics.ComponentPropertySummary); p != nil {
		name = p.Value
	}
	return icsError("has an event %q that cannot be read: %v", clip(name), err)
}

// cover notes the dates from the one that an occurrence begins on to the one that it ends on. Its length is seconds of the wall clock: a
// day is a day, also where it has 23 hours.
func (c *icsFile) cover(start time.Time, length int64) error {
	if c.occurred++; c.occurred > maxEvents {
		return fmt.Errorf("it is one of more than %d occurrences", maxEvents)
	}
	first := wallClock(start)
	last := floorDay(first + max(length-1, 0))
	for day := floorDay(first); day <= last; day++ {
		if day < firstDay || day >= lastDay {
			return fmt.Errorf("%s lies outside the years %d to %d", start.Format(time.DateOnly), minYear, maxYear)
		}
		c.days[int32(day)] = true
		if len(c.days) > timer.MaxCalendarDates {
			return fmt.Errorf("with it, the file covers more than %d dates", timer.MaxCalendarDates)
		}
	}
	return nil
}

// wallClock returns what the wall clock shows, in seconds since it showed 1970-01-01 00:00.
func wallClock(at time.Time) int64 {
	_, offset := at.Zone()
	return at.Unix() + int64(offset)
}

func (c *icsFile) dates() []string {
	out := make([]string, 0, len(c.days))
	for day := range c.days {
		out = append(out, time.Unix(int64(day)*secondsPerDay, 0).UTC().Format(time.DateOnly))
	}
	slices.Sort(out)
	return out
}
