package calendar

import (
	"github.com/teambition/rrule-go"
)

// recur takes the occurrences of a rule, ascending, on the wall clock of the event: there every day
// has a midnight, and weekdays are those of the event's zone. endless tells that the rule goes on
// behind lastYear. What take returns is an error of the rule.
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
	if wall(start.local).IsZero() { // for rrule-go that is no DTSTART, and it takes the time of day
		return p.wrong("expected a DTSTART after 00010101T000000, found %q", start)
	}
	// rrule-go goes on for a day more than can count, as UNTIL may be an instant: each occurrence
	// is compared with it.
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
	n := 0
	for found, ok := next(); ok; found, ok = next() {
		n++
		at := moment{local: found.Unix(), in: start.in, date: start.date}
		if until.before(at) {
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

// ruleEnd is what UNTIL says.
type ruleEnd struct {
	local int64 // by the wall clock of the event
	// unix is the instant, where UNTIL is one and the event is of a zone: a local time may exist
	// twice.
	unix    int64
	instant bool
	none    bool // there is no UNTIL
}

// before tells whether an occurrence is behind the end.
func (r *ruleEnd) before(at moment) bool {
	switch {
	case r.none:
		return false
	case r.instant:
		return r.unix < at.unix()
	}
	return r.local < at.local
}

// end returns where the rule of an event ends. A date is the whole of that day. Of an event with
// dates only the date counts, and a time without a zone is one of the event's zone.
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
