package schedule

import (
	"math/bits"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	secondsPerDay    = 86_400
	secondsPerHour   = 3_600
	secondsPerMinute = 60
	monthsPerYear    = 12
	daysPerWeek      = 7
	epochWeekday     = 4 // 1970-01-01 was a Thursday

	starBit = 1 << 63 // robfig's mark of a field that was *
	none    = -1 << 62
)

// calendar is due when the wall clock of its zone matches its fields.
type calendar struct {
	second, minute, hour, dom, month, dow uint64 // bit n: the value n is allowed
	anyDay                                bool   // one of the day fields is *: a day must match both, else either
	years                                 yearSet
	loc                                   *time.Location
}

func newCalendar(s *cron.SpecSchedule, years yearSet, loc *time.Location) *calendar {
	return &calendar{
		second: s.Second &^ starBit, minute: s.Minute &^ starBit, hour: s.Hour &^ starBit,
		dom: s.Dom &^ starBit, month: s.Month &^ starBit, dow: s.Dow &^ starBit,
		anyDay: (s.Dom|s.Dow)&starBit != 0,
		years:  years, loc: loc,
	}
}

// next goes from one change of the zone's offset to the next: between two of them the wall clock runs like UTC's, and the
// search is arithmetic. No stretch is searched twice, and the last ends with maxYear.
func (c *calendar) next(afterMS, _ int64) int64 {
	if afterMS >= maxMS {
		return timer.NeverMS
	}
	from := floorDiv(max(afterMS, -1), 1000) + 1 // unix seconds
	for from < maxMS/1000 {
		at := time.Unix(from, 0).In(c.loc)
		_, offset := at.Zone()
		to := maxMS / 1000
		if _, end := at.ZoneBounds(); end.Unix() > from {
			to = min(to, end.Unix())
		} else if !end.IsZero() {
			// ZoneBounds counts 365 days to a year: on the last of December of a leap year its end is already past.
			to = from + secondsPerHour
		}
		if s := c.nextLocal(from+int64(offset), to+int64(offset)); s != none {
			return (s - int64(offset)) * 1000
		}
		from = to
	}
	return timer.NeverMS
}

// nextLocal returns the first match in [from, to), or none. Its seconds are those of a wall clock, counted since it showed
// 1970-01-01 00:00.
func (c *calendar) nextLocal(from, to int64) int64 {
	day := floorDiv(from, secondsPerDay)
	second := int(from - day*secondsPerDay)
	y, m, d := civil(day)
	for ; y <= maxYear && daysBefore(y, 1)*secondsPerDay < to; y, m, d, second = y+1, 1, 1, 0 {
		if y < minYear || !c.years[y-minYear] {
			continue
		}
		for ; m <= monthsPerYear; m, d, second = m+1, 1, 0 {
			if c.month>>m&1 == 0 {
				continue
			}
			before := daysBefore(y, m)
			for ; d <= daysIn(y, m); d, second = d+1, 0 {
				today := before + int64(d-1)
				if today*secondsPerDay >= to {
					return none
				}
				if !c.dayMatches(d, today) {
					continue
				}
				if s := c.nextOfDay(second); s >= 0 {
					return below(today*secondsPerDay+int64(s), to)
				}
			}
		}
	}
	return none
}

func below(s, to int64) int64 {
	if s < to {
		return s
	}
	return none
}

func (c *calendar) dayMatches(d int, day int64) bool {
	dom := c.dom>>d&1 != 0
	dow := c.dow>>((day+epochWeekday)%daysPerWeek)&1 != 0
	if c.anyDay {
		return dom && dow
	}
	return dom || dow
}

// nextOfDay returns the first matching second of a day at or after the given one, -1 where the day has no more.
func (c *calendar) nextOfDay(from int) int {
	h0, m0, s0 := from/secondsPerHour, from/secondsPerMinute%60, from%60
	h := nextBit(c.hour, h0)
	if h == h0 {
		m := nextBit(c.minute, m0)
		if m == m0 {
			if s := nextBit(c.second, s0); s >= 0 {
				return h*secondsPerHour + m*secondsPerMinute + s
			}
			m = nextBit(c.minute, m0+1)
		}
		if m >= 0 {
			return h*secondsPerHour + m*secondsPerMinute + bits.TrailingZeros64(c.second)
		}
		h = nextBit(c.hour, h0+1)
	}
	if h < 0 {
		return -1
	}
	return h*secondsPerHour + bits.TrailingZeros64(c.minute)*secondsPerMinute + bits.TrailingZeros64(c.second)
}

// nextBit returns the lowest bit that is set at or above from, -1 where there is none.
func nextBit(set uint64, from int) int {
	if rest := set >> from << from; rest != 0 {
		return bits.TrailingZeros64(rest)
	}
	return -1
}
