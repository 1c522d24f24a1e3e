package calendar

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// dayset is a set of the days from firstDay to lastDay.
type dayset struct {
	has   [lastDay]bool
	count int
}

func (s *dayset) add(day int64) {
	if !s.has[day] {
		s.has[day] = true
		s.count++
	}
}

// cover notes the dates from the one that an occurrence begins on to the one that it ends on. Its length is seconds of the wall clock: a
// day is a day, also where it has 23 hours.
func (c *icsFile) cover(to *dayset, start time.Time, length int64) error {
	first := wallClock(start)
	last := first + max(length-1, 0)
	if c.own != nil && start.Location() != anywhere {
		y, m, d := start.Date()
		end := time.Date(y, m, d, start.Hour(), start.Minute(), start.Second()+int(max(length-1, 0)), 0, start.Location())
		first, last = wallClock(start.In(c.own)), wallClock(end.In(c.own))
	}
	from, until := max(floorDay(first), firstDay), min(floorDay(last), lastDay-1)
	if c.work += 1 + int(max(0, until-from)); c.work > maxWork {
		return fmt.Errorf("it is one of more than %d occurrences and days", maxWork)
	}
	for day := from; day <= until; day++ {
		if to.add(day); c.listed.count > timer.MaxCalendarDates {
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

// dates chooses as ICSDates says.
func (c *icsFile) dates(now time.Time) (*ICSDates, error) {
	out := &ICSDates{}
	from, until := int64(firstDay), dayOf(EndlessUntil+1)-1
	if c.isEndless {
		if c.count(from, until) > timer.MaxCalendarDates {
			from = max(from, dayOf(now.UTC().Year()-1))
			out.EndlessFrom = dateText(from)
		}
		for year := EndlessUntil; c.count(from, until) > timer.MaxCalendarDates; year-- {
			if year <= now.UTC().Year() {
				return nil, icsError("covers more than %d dates up to the end of this year", timer.MaxCalendarDates)
			}
			until = dayOf(year) - 1
		}
		out.EndlessUntil = dateText(until)
	}
	for day := range int64(lastDay) {
		if c.listed.has[day] || c.endless.has[day] && day >= from && day <= until {
			out.Dates = append(out.Dates, dateText(day))
		}
	}
	return out, nil
}

// count returns how many dates there are, if of rules without an end those of some days count.
func (c *icsFile) count(from, until int64) int {
	n := c.listed.count
	for day := from; day <= until; day++ {
		if c.endless.has[day] && !c.listed.has[day] {
			n++
		}
	}
	return n
}

// dayOf returns the first of January.
func dayOf(year int) int64 {
	return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

func dateText(day int64) string {
	return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly)
}
