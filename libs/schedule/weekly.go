package schedule

import (
	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// quickSteps is how many excluded instants a search tries one after the other, before it asks which
// times of a week the calendars and the schedule have in common. Mostly the next allowed instant is
// near.
const quickSteps = 64

// nextOf returns the first allowed instant of one part of the schedule after afterMS and before
// beforeMS, or timer.NeverMS. Without the times in common, it would check every instant of 230 years
// in vain, for example for a time of day outside the allowed hours.
func (p *Parsed) nextOf(part []instants, afterMS, beforeMS, anchorMS int64) int64 {
	search := p.calendars.Search(p.zone, weeklyTimes(part[0], anchorMS))
	until := floorDiv(beforeMS-1, 1000) + 1
	for {
		due := p.firstOf(part, afterMS, anchorMS)
		if due >= beforeMS {
			return timer.NeverMS
		}
		at := floorDiv(due, 1000)
		switch open := search.Next(at, until); {
		case open == calendar.Never:
			return timer.NeverMS
		case open > at:
			afterMS = open*1000 - 1
		case p.calendars.Allows(at):
			return due
		default:
			afterMS = due // the clock changes, and a gap may end with an instant
		}
	}
}

// weeklyTimes returns a function that reports whether a part may have instants in a range of a
// week, in seconds since Sunday 00:00 UTC; except an instant at the end of a gap. nil means that it
// may have some at every time.
func weeklyTimes(part instants, anchorMS int64) func(from, to, offset int64) bool {
	switch part := part.(type) {
	case *wall:
		return part.mayMatch
	case every:
		if part.fixed {
			anchorMS = part.anchor
		}
		return timesOfEvery(part.ms, anchorMS+part.offset)
	}
	return nil
}

// mayMatch reports whether the weekdays and the times of day of the spec have a match in a range of
// a week.
func (w *wall) mayMatch(from, to, offset int64) bool {
	from, to = from+offset, to+offset
	for day := floorDiv(from, secondsPerDay); day*secondsPerDay < to; day++ {
		weekday := (day + daysPerWeek) % daysPerWeek
		if w.weekdays()>>weekday&1 == 0 {
			continue
		}
		begin := day * secondsPerDay
		at := w.nextOfDay(int(max(from-begin, 0)))
		if at >= 0 && begin+int64(at) < to {
			return true
		}
	}
	return false
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

// timesOfEvery is mayMatch for a fixed rate. In a week it has instants at all multiples of the
// greatest common divisor of its length and the week's, from the first instant on.
func timesOfEvery(everyMS, firstMS int64) func(from, to, offset int64) bool {
	const (
		weekMS      = daysPerWeek * secondsPerDay * 1000
		weekOfEpoch = epochWeekday * secondsPerDay * 1000
	)
	apart := everyMS
	for rest := int64(weekMS); rest != 0; {
		apart, rest = rest, apart%rest
	}
	first := firstMS + weekOfEpoch
	return func(from, to, _ int64) bool {
		from, to = from*1000, to*1000
		return from+((first-from)%apart+apart)%apart < to
	}
}
