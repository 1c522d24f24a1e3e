package schedule

import "math/bits"

const (
	secondsPerDay    = 86_400
	secondsPerHour   = 3_600
	secondsPerMinute = 60
	monthsPerYear    = 12
	daysPerWeek      = 7
	weekMask         = 1<<daysPerWeek - 1
	maxWeeks         = 5 // occurrences of one weekday in a month
	epochWeekday     = 4 // 1970-01-01 was a Thursday
	saturday         = 6

	none = -1 << 62 // no local time
)

// The range of years of schedules.
const (
	minYear = 1970
	maxYear = 2199
)

// maxMS is the end of maxYear in UTC. All instants of schedules are before it.
var maxMS = daysBefore(maxYear+1, 1) * secondsPerDay * 1000

// cron is a parsed spec: conditions on the wall clock, without a zone.
type cron struct {
	second, minute, hour, month uint64 // bit n is set if the value n is allowed
	years                       yearSet
	days                        dayRules
	everyHour                   bool // the hour field is * or */n; see wall
}

// yearSet is the set of allowed years: bit n is the year minYear + n.
type yearSet [4]uint64

func (s *yearSet) add(y int)      { s[(y-minYear)/64] |= 1 << ((y - minYear) % 64) }
func (s *yearSet) has(y int) bool { return s[(y-minYear)/64]>>((y-minYear)%64)&1 != 0 }

// next returns the first match at or after a local time, or none. Local times are seconds since the
// wall clock showed 1970-01-01 00:00. It steps by months, so even 230 years take only microseconds.
func (c *cron) next(from int64) int64 {
	day := floorDiv(from, secondsPerDay)
	y, m, d := civil(day)
	if c.matches(y, m, d, day) {
		if s := c.nextOfDay(int(from - day*secondsPerDay)); s >= 0 {
			return day*secondsPerDay + int64(s)
		}
	}
	if day = c.nextDay(y, m, d+1); day == none {
		return none
	}
	return day*secondsPerDay + int64(c.nextOfDay(0))
}

func (c *cron) matches(y, m, d int, day int64) bool {
	if y < minYear || y > maxYear || !c.years.has(y) || c.month>>m&1 == 0 {
		return false
	}
	return c.days.of(weekdayOf(day-int64(d-1)), daysIn(y, m))>>d&1 != 0
}

// nextDay returns the first matching day at or after a date. The date may be one day past the end
// of its month.
func (c *cron) nextDay(y, m, d int) int64 {
	if y < minYear {
		y, m, d = minYear, 1, 1
	}
	for ; y <= maxYear; y, m, d = y+1, 1, 1 {
		if !c.years.has(y) {
			continue
		}
		for ; m <= monthsPerYear; m, d = m+1, 1 {
			if c.month>>m&1 == 0 {
				if m, d = nextBit(c.month, m), 1; m < 0 {
					break
				}
			}
			first := daysBefore(y, m)
			if n := nextBit(c.days.of(weekdayOf(first), daysIn(y, m)), d); n > 0 {
				return first + int64(n-1)
			}
		}
	}
	return none
}

// nextOfDay returns the first matching second of a day at or after the given one, or -1.
func (c *cron) nextOfDay(from int) int {
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
	return h*secondsPerHour + bits.TrailingZeros64(
		c.minute,
	)*secondsPerMinute + bits.TrailingZeros64(
		c.second,
	)
}

// nextBit returns the lowest set bit at or above from, or -1.
func nextBit(set uint64, from int) int {
	if rest := set >> from << from; rest != 0 {
		return bits.TrailingZeros64(rest)
	}
	return -1
}
