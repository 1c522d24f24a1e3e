package calendar

import (
	"fmt"
	"slices"
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

// cover adds the dates from the start to the end of an occurrence. Its length is seconds of the
// wall clock, so a day is a day even if it has 23 hours.
func (c *icsFile) cover(to *dayset, start moment, length int64) error {
	end := start
	end.local += max(length-1, 0)
	shown := c.own
	if shown == nil && start.in == utc {
		shown = c.zone
	}
	first, last := start.local, end.local
	// Also on its own clock: a missing local time becomes an existing one.
	if shown != nil && start.in != nil {
		first, last = shown.local(start.unix()), shown.local(end.unix())
	}
	from, until := max(floorDay(first), firstDay), min(floorDay(last), lastDay-1)
	if err := c.addWork(1 + int(max(0, until-from))); err != nil {
		return err
	}
	for day := from; day <= until; day++ {
		if to.add(day); c.listed.count > timer.MaxCalendarDates {
			return fmt.Errorf("with it, the file covers more than %d dates", timer.MaxCalendarDates)
		}
	}
	return nil
}

// addWork counts occurrences and covered days.
func (c *icsFile) addWork(n int) error {
	if c.work += n; c.work > maxWork {
		return fmt.Errorf(
			"it is one of more than %d occurrences and days, those that rules pass included: "+
				"let rules begin later, or end",
			maxWork,
		)
	}
	return nil
}

// dates selects the dates as described at ICSDates.
func (c *icsFile) dates(now time.Time) (*ICSDates, error) {
	out := &ICSDates{TimedEvents: c.timed, UnknownZones: c.unknownZones}
	from, until := int64(firstDay), dayOf(EndlessUntil+1)-1
	if c.isEndless {
		if c.count(from, until) > timer.MaxCalendarDates {
			from = max(from, dayOf(now.UTC().Year()-1))
			if c.endlessBefore(from) {
				out.EndlessFrom = dateText(from)
			}
		}
		for year := EndlessUntil; c.count(from, until) > timer.MaxCalendarDates; year-- {
			if year <= now.UTC().Year() {
				return nil, icsError(
					"covers more than %d dates up to the end of this year",
					timer.MaxCalendarDates,
				)
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

// endlessBefore reports whether an endless rule has a date before a day.
func (c *icsFile) endlessBefore(day int64) bool {
	return slices.Contains(c.endless.has[:day], true)
}

// count returns the number of dates if endless rules are limited to the given days.
func (c *icsFile) count(from, until int64) int {
	n := c.listed.count
	for day := from; day <= until; day++ {
		if c.endless.has[day] && !c.listed.has[day] {
			n++
		}
	}
	return n
}

// dayOf returns January 1 of a year.
func dayOf(year int) int64 {
	return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

func dateText(day int64) string {
	return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly)
}
