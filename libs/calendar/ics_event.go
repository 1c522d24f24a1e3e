package calendar

import (
	"fmt"
	"strings"
	"time"
)

// event notes what one event covers.
func (c *icsFile) event(e *icsEvent) error {
	p := e.first("DTSTART")
	if p == nil {
		return fmt.Errorf("line %d: it has no DTSTART: expected one such as DTSTART;VALUE=DATE:20261225", e.line)
	}
	start, err := c.instant(p, p.value)
	if err != nil {
		return err
	}
	length, err := c.length(e, start, isDate(p.value))
	if err != nil {
		return err
	}
	left, err := c.leftOut(e)
	if err != nil {
		return err
	}
	take := func(to *dayset, at time.Time, length int64) error {
		if left[at.Unix()] {
			return nil
		}
		return c.cover(to, at, length)
	}
	if err := take(&c.listed, start, length); err != nil { // the first occurrence is one, whatever the rule says
		return p.wrong("%w", err)
	}
	for _, p := range e.all("RDATE") {
		more, err := c.occurrences(p, length)
		if err != nil {
			return err
		}
		for _, one := range more {
			if err := take(&c.listed, one.at, one.length); err != nil {
				return p.wrong("%w", err)
			}
		}
	}
	for _, rule := range e.all("RRULE") {
		if err := c.recur(rule, start, func(to *dayset, at time.Time) error { return take(to, at, length) }); err != nil {
			return err
		}
	}
	return nil
}

// leftOut returns the occurrences that are not: those of EXDATE, and those that another event replaces.
func (c *icsFile) leftOut(e *icsEvent) (map[int64]bool, error) {
	out := map[int64]bool{}
	for _, p := range e.all("EXDATE") {
		dates, err := c.occurrences(p, 0)
		if err != nil {
			return nil, err
		}
		for _, one := range dates {
			out[one.at.Unix()] = true
		}
	}
	if e.first("RECURRENCE-ID") == nil {
		for at := range c.changed[e.text("UID")] {
			out[at] = true
		}
	}
	return out, nil
}

// length returns how many seconds an event lasts: up to DTEND, or DURATION, or else the day that it is given as.
func (c *icsFile) length(e *icsEvent, start time.Time, wholeDay bool) (int64, error) {
	if p := e.first("DTEND"); p != nil {
		end, err := c.instant(p, p.value)
		if err != nil {
			return 0, err
		}
		return lengthTo(p, start, end)
	}
	if p := e.first("DURATION"); p != nil {
		return readDuration(p, p.value)
	}
	if wholeDay {
		return secondsPerDay, nil
	}
	return 0, nil
}

// lengthTo is by the wall clock of the beginning. A time that is of no zone ends what is of one by that one's.
func lengthTo(p *icsProperty, start, end time.Time) (int64, error) {
	if end.Location() != anywhere && start.Location() != anywhere {
		end = end.In(start.Location())
	}
	length := wallClock(end) - wallClock(start)
	if length < 0 {
		return 0, p.wrong("it ends before it begins: expected %s or later, found %q", wallText(start), clip(p.value))
	}
	return length, nil
}

func wallText(at time.Time) string { return at.Format("20060102T150405") }

// occurrence is one of those that RDATE or EXDATE lists.
type occurrence struct {
	at     time.Time
	length int64
}

// occurrences returns all that a property lists. A period has a length of its own.
func (c *icsFile) occurrences(p *icsProperty, length int64) ([]occurrence, error) {
	var out []occurrence
	for part := range strings.SplitSeq(p.value, ",") {
		begin, end, period := strings.Cut(part, "/")
		at, err := c.instant(p, begin)
		if err != nil {
			return nil, err
		}
		one := occurrence{at, length}
		if period {
			if one.length, err = c.periodLength(p, at, end); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// periodLength reads the second part of a period, which is its end or how long it lasts.
func (c *icsFile) periodLength(p *icsProperty, start time.Time, text string) (int64, error) {
	if strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "P") || strings.HasPrefix(text, "+") {
		return readDuration(p, text)
	}
	end, err := c.instant(p, text)
	if err != nil {
		return 0, err
	}
	return lengthTo(p, start, end)
}
