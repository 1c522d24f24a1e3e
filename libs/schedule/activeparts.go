package schedule

import "github.com/carillon-timer/carillon/libs/calendar"

// setActiveParts drops the crons that the calendars always exclude, under the policy "skip".
// Without it a search would check every instant of 230 years in vain, for example for a time of day
// outside the allowed hours.
func (p *Parsed) setActiveParts() {
	p.activeParts = p.parts[:0:0]
	for _, part := range p.parts {
		if w, ok := part.(*wall); !ok || w.meets(p.calendars) {
			p.activeParts = append(p.activeParts, part)
		}
	}
}

// meets reports whether the calendars may allow any instant. False is certain, true is not.
func (w *wall) meets(calendars *calendar.Set) bool {
	return calendars.MayAllow(w.zone, w.weekdays(), w.nextOfDay) || w.shifts()
}

// weekdays returns the weekdays on which the spec can match.
func (w *wall) weekdays() uint64 {
	d := &w.days
	if !d.both || d.dates != allDates {
		return weekMask
	}
	out := d.weekdays | d.last
	for _, set := range d.nth {
		out |= set
	}
	return out
}

const allDates = 1<<32 - 2

// shifts reports whether a gap of the zone can contain a time of day of the spec. Then the spec can
// be due at a different time of day.
func (w *wall) shifts() bool {
	if !w.shift {
		return false
	}
	z := w.zone
	for i := 1; i < z.Len(); i++ {
		from, to := z.Start(i)+z.Offset(i-1), z.Start(i)+z.Offset(i)
		if to <= from {
			continue
		}
		second := int(from - floorDiv(from, secondsPerDay)*secondsPerDay)
		length := int(to - from)
		at := w.nextOfDay(second)
		if at < 0 { // the gap may extend past midnight
			at = w.nextOfDay(0) + secondsPerDay
		}
		if at < second+length {
			return true
		}
	}
	return false
}
