package calendar

import (
	"fmt"
	"strings"
)

// event adds the dates of one event. changed are the modifications by other events of the same UID.
func (c *icsFile) event(e *icsEvent, changed *changes) error {
	one, err := c.occurrence(e)
	if err != nil {
		return err
	}
	if !one.at.date {
		c.timed++
	}
	if p := e.first("EXRULE"); p != nil {
		return p.wrong(
			"expected no rule of exceptions, which RFC 5545 has no more: list its dates in EXDATE",
		)
	}
	if p := e.first("RECURRENCE-ID"); p != nil {
		return c.changedEvent(p, one, changed)
	}
	var left moments
	if err := c.leaveOut(e, &left); err != nil {
		return err
	}
	take := func(to *dayset, one occurrence) error {
		if left.has(one.at) || changed.replaced.has(one.at) {
			return c.addWork(1)
		}
		one, cancelled := changed.apply(one)
		if cancelled {
			return c.addWork(1)
		}
		c.isEndless = c.isEndless || to == &c.endless
		return c.cover(to, one.at, one.length)
	}
	// DTSTART always occurs, whatever the rule says.
	if err := take(&c.listed, one); err != nil {
		return e.first("DTSTART").wrong("%w", err)
	}
	for _, p := range e.all("RDATE") {
		more, err := c.occurrences(p, one.length)
		if err != nil {
			return err
		}
		for _, another := range more {
			if err := take(&c.listed, another); err != nil {
				return p.wrong("%w", err)
			}
		}
	}
	for _, rule := range e.all("RRULE") {
		err := c.recur(rule, one.at, EndlessUntil, func(at moment, endless bool) error {
			to := &c.listed
			if endless {
				to = &c.endless
			}
			if at == one.at {
				return nil
			}
			return take(to, occurrence{at, one.length})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changedEvent adds the dates of one changed occurrence. If an EXDATE removes the occurrence
// itself, the change does not count. An EXDATE of a whole day removes only unchanged occurrences. A
// change of an occurrence that the rule does not generate counts.
func (c *icsFile) changedEvent(p *icsProperty, one occurrence, changed *changes) error {
	at, err := c.moment(p, p.value)
	if err != nil {
		return err
	}
	if changed.excluded.names(at) {
		return nil
	}
	return c.cover(&c.listed, one.at, one.length)
}

// occurrence is the start of an event and its length in seconds of the wall clock.
type occurrence struct {
	at     moment
	length int64
}

// occurrence returns the occurrence given by the event itself.
func (c *icsFile) occurrence(e *icsEvent) (occurrence, error) {
	p := e.first("DTSTART")
	if p == nil {
		return occurrence{}, missing(e, "DTSTART", "DTSTART;VALUE=DATE:20261225")
	}
	start, err := c.moment(p, p.value)
	if err != nil {
		return occurrence{}, err
	}
	length, err := c.length(e, start)
	return occurrence{start, length}, err
}

func missing(e *icsEvent, name, example string) error {
	return fmt.Errorf("line %d: it has no %s: expected one such as %s", e.line, name, example)
}

// length returns the length of an event in seconds: up to DTEND, or DURATION, or else one day for a
// date.
func (c *icsFile) length(e *icsEvent, start moment) (int64, error) {
	if p := e.first("DTEND"); p != nil {
		end, err := c.moment(p, p.value)
		if err != nil {
			return 0, err
		}
		return lengthTo(p, start, end)
	}
	if p := e.first("DURATION"); p != nil {
		return readDuration(p, p.value)
	}
	if start.date {
		return secondsPerDay, nil
	}
	return 0, nil
}

// lengthTo returns the length on the wall clock of the start. An end without a zone is in the zone
// of the start.
func lengthTo(p *icsProperty, start, end moment) (int64, error) {
	length := end.by(start.in) - start.local
	if length < 0 {
		return 0, p.wrong(
			"it ends before it begins: expected %s or later, found %q",
			wall(start.local).Format("20060102T150405"),
			clip(p.value),
		)
	}
	return length, nil
}

// occurrences returns the values of a property. A period has its own length.
func (c *icsFile) occurrences(p *icsProperty, length int64) ([]occurrence, error) {
	var out []occurrence
	for part := range strings.SplitSeq(p.value, ",") {
		begin, end, period := strings.Cut(part, "/")
		at, err := c.moment(p, begin)
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

// periodLength parses the second part of a period, which is an end or a duration.
func (c *icsFile) periodLength(p *icsProperty, start moment, text string) (int64, error) {
	if strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "P") ||
		strings.HasPrefix(text, "+") {
		return readDuration(p, text)
	}
	end, err := c.moment(p, text)
	if err != nil {
		return 0, err
	}
	return lengthTo(p, start, end)
}
