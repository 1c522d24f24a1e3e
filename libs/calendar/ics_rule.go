package calendar

import (
	"github.com/teambition/rrule-go"
)

// recur calls take for the occurrences of a rule, ascending, on the wall clock of the event. There
// every day has a midnight, and weekdays are those of the event's zone. endless means that the rule
// continues after lastYear. An error of take is returned as an error of the rule.
func (c *icsFile) recur(
	p *icsProperty,
	start moment,
	lastYear int,
	take func(at moment, endless bool) error,
) error {
	rule, err := readRule(p)
	if err != nil {
		return err
	}
	until, err := rule.end(p, start)
	if err != nil {
		return err
	}
	// rrule-go treats the zero time as no DTSTART, and uses the current time of day
	if wall(start.local).IsZero() {
		return p.wrong("expected a DTSTART after 00010101T000000, found %q", start)
	}
	// rrule-go runs one day longer than needed, because UNTIL may be an instant. Each occurrence is
	// compared with it.
	last := dayOf(lastYear+1)*secondsPerDay - 1
	endless := rule.opts.Count == 0
	if !until.none {
		endless = until.local > last
		last = min(last, until.local+secondsPerDay)
	}
	rule.opts.Dtstart, rule.opts.Until = wall(start.local), wall(last)
	r, err := rrule.NewRRule(rule.opts)
	if err != nil {
		return p.wrong(
			"expected a rule such as FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25, found %q: %w",
			clip(p.value),
			err,
		)
	}
	next := r.Iterator()
	n, passed := 0, start.local
	for found, ok := next(); ok; found, ok = next() {
		n++
		at := moment{local: found.Unix(), in: start.in, date: start.date}
		if err := c.addWork(rule.passed(passed, at.local)); err != nil {
			return p.wrong("%w", err)
		}
		if passed = at.local; until.before(at) {
			break
		}
		if err := take(at, endless); err != nil {
			return p.wrong("%w", err)
		}
	}
	if n == 0 {
		if c.neverMatching++; c.neverMatching > maxNeverMatching {
			return p.wrong(
				"expected a rule that matches some day, found %q, which never does, like %d before it",
				clip(p.value),
				maxNeverMatching,
			)
		}
	}
	return nil
}

// passed returns the work of rrule-go between two occurrences: the days, weeks or months without one,
// where a year counts as twelve, and the positions in each.
func (r *icsRule) passed(from, to int64) int {
	days, each := int64(1), int64(1)
	switch r.opts.Freq { //nolint:exhaustive // readRule refuses shorter ones
	case rrule.WEEKLY:
		days = daysPerWeek
	case rrule.MONTHLY:
		days = 30
	case rrule.YEARLY:
		days, each = 365, 12
	}
	length := days * secondsPerDay * int64(max(r.opts.Interval, 1))
	periods := max((to-from)/length, 1)
	return int((periods-1)*each) + int(periods)*len(r.opts.Bysetpos)
}

// ruleEnd is a parsed UNTIL.
type ruleEnd struct {
	local int64 // on the wall clock of the event
	// unix is set if UNTIL is an instant and the event has a zone, because a local time may occur
	// twice.
	unix    int64
	instant bool
	none    bool // there is no UNTIL
}

// before reports whether an occurrence is after the end.
func (r *ruleEnd) before(at moment) bool {
	switch {
	case r.none:
		return false
	case r.instant:
		return r.unix < at.unix()
	}
	return r.local < at.local
}

// end returns the end of a rule. A date includes the whole day. For an event of dates only the date
// counts. A time without a zone is in the event's zone.
func (r *icsRule) end(p *icsProperty, start moment) (ruleEnd, error) {
	if r.until == nil {
		return ruleEnd{none: true}, nil
	}
	end := ruleEnd{local: r.until.local}
	switch {
	case r.until.date || start.date:
		end.local = floorDay(end.local)*secondsPerDay + secondsPerDay - 1
	case r.until.in != nil && start.in != nil:
		end = ruleEnd{local: r.until.by(start.in), unix: r.until.unix(), instant: true}
	}
	if end.before(start) {
		return end, p.wrong(
			"expected an UNTIL that is DTSTART (%s) or later, found %q",
			start,
			clip(p.value),
		)
	}
	return end, nil
}
