package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"

	"github.com/carillon-timer/carillon/libs/zone"
)

// event notes what one event covers.
func (c *icsFile) event(e *ics.VEvent) error {
	p := e.GetProperty(ics.ComponentPropertyDtStart)
	if p == nil {
		return errors.New("it has no DTSTART")
	}
	start, err := c.instant(p)
	if err != nil {
		return err
	}
	length, err := c.length(e, start, isDate(p.Value))
	if err != nil {
		return err
	}
	left, err := c.leftOut(e)
	if err != nil {
		return err
	}
	take := func(at time.Time) error {
		if left[at.Unix()] {
			return nil
		}
		return c.cover(at, length)
	}
	if err := take(start); err != nil { // the first occurrence is one, whatever the rule says
		return err
	}
	more, err := c.listed(e, ics.ComponentPropertyRdate)
	if err != nil {
		return err
	}
	for _, at := range more {
		if err := take(at); err != nil {
			return err
		}
	}
	for _, rule := range e.GetProperties(ics.ComponentPropertyRrule) {
		if err := c.recur(rule.Value, start, take); err != nil {
			return err
		}
	}
	return nil
}

// leftOut returns the occurrences that are not: those of EXDATE, and those that another event replaces.
func (c *icsFile) leftOut(e *ics.VEvent) (map[int64]bool, error) {
	dates, err := c.listed(e, ics.ComponentPropertyExdate)
	if err != nil {
		return nil, err
	}
	out := map[int64]bool{}
	for _, at := range dates {
		out[at.Unix()] = true
	}
	if e.GetProperty(ics.ComponentPropertyRecurrenceId) == nil {
		for at := range c.changed[e.Id()] {
			out[at] = true
		}
	}
	return out, nil
}

// recur takes the occurrences of a rule.
func (c *icsFile) recur(rule string, start time.Time, take func(time.Time) error) error {
	opts, err := rrule.StrToROptionInLocation(rule, start.Location())
	if err != nil {
		return fmt.Errorf("RRULE %q: %w", clip(rule), err)
	}
	// Of a rule by the hour, or by hours, nothing but the date would count, and a thousand occurrences would be one.
	if opts.Freq > rrule.DAILY || len(opts.Byhour)+len(opts.Byminute)+len(opts.Bysecond) > 0 {
		return fmt.Errorf("RRULE %q: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, without hours, minutes and seconds", clip(rule))
	}
	opts.Dtstart = start
	if end := time.Date(EndlessUntil+1, 1, 1, 0, 0, 0, -1, start.Location()); opts.Until.IsZero() || opts.Until.After(end) {
		opts.Until = end
	}
	r, err := rrule.NewRRule(*opts)
	if err != nil {
		return fmt.Errorf("RRULE %q: %w", clip(rule), err)
	}
	next := r.Iterator()
	n := 0
	for at, ok := next(); ok; at, ok = next() {
		if n++; n == 1 && at.Equal(start) {
			continue
		}
		if err := take(at); err != nil {
			return err
		}
	}
	if n == 0 {
		if c.barren++; c.barren > maxBarren {
			return fmt.Errorf("RRULE %q: it never matches, like %d before it", clip(rule), maxBarren)
		}
	}
	return nil
}

// length returns how many seconds an event lasts: up to DTEND, or DURATION, or else the day that it is given as.
func (c *icsFile) length(e *ics.VEvent, start time.Time, wholeDay bool) (int64, error) {
	if p := e.GetProperty(ics.ComponentPropertyDtEnd); p != nil {
		end, err := c.instant(p)
		if err != nil {
			return 0, err
		}
		length := wallClock(end.In(start.Location())) - wallClock(start)
		if length < 0 {
			return 0, errors.New("it ends before it begins")
		}
		return length, nil
	}
	if p := e.GetProperty(ics.ComponentPropertyDuration); p != nil {
		length, err := readDuration(p.Value)
		return int64(length / time.Second), err
	}
	if wholeDay {
		return secondsPerDay, nil
	}
	return 0, nil
}

var durationForm = regexp.MustCompile(`^\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?$`)

func readDuration(text string) (time.Duration, error) {
	m := durationForm.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") {
		return 0, fmt.Errorf("DURATION %q: expected one such as P1D or PT2H30M", clip(text))
	}
	var total time.Duration
	for i, unit := range []time.Duration{daysPerWeek * secondsPerDay * time.Second, secondsPerDay * time.Second, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.Atoi(m[i+1]); err == nil {
			total += time.Duration(n) * unit
		}
	}
	return total, nil
}

// listed returns the instants of all properties of a name, of which each may hold several. Of a period the beginning counts.
func (c *icsFile) listed(e *ics.VEvent, name ics.ComponentProperty) ([]time.Time, error) {
	var out []time.Time
	for _, p := range e.GetProperties(name) {
		for part := range strings.SplitSeq(p.Value, ",") {
			one := *p
			one.Value, _, _ = strings.Cut(part, "/")
			at, err := c.instant(&one)
			if err != nil {
				return nil, err
			}
			out = append(out, at)
		}
	}
	return out, nil
}

func isDate(value string) bool { return len(value) == len("20060102") }

// instant reads a DATE or a DATE-TIME.
func (c *icsFile) instant(p *ics.IANAProperty) (time.Time, error) {
	loc := time.UTC
	if ids := p.ICalParameters["TZID"]; len(ids) > 0 && !isDate(p.Value) {
		name := strings.TrimPrefix(ids[0], "/")
		if z, err := zone.Load(name); err == nil { // else a name of the file's own: the date is what it is anywhere
			loc = z.Location()
		}
	}
	layout := "20060102T150405"
	switch {
	case isDate(p.Value):
		layout = "20060102"
	case strings.HasSuffix(p.Value, "Z"):
		at, err := time.Parse(layout+"Z", p.Value)
		if err != nil {
			return time.Time{}, notInstant(p)
		}
		return at.In(c.zone), nil
	}
	at, err := time.ParseInLocation(layout, p.Value, loc)
	if err != nil {
		return time.Time{}, notInstant(p)
	}
	return at, nil
}

func notInstant(p *ics.IANAProperty) error {
	return fmt.Errorf("%s: expected a date such as 20261225 or a time such as 20261225T090000Z, found %q", p.IANAToken, clip(p.Value))
}
