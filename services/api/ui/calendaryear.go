package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Years that a calendar may have dates of.
const (
	firstYear = 1970
	lastYear  = 2199
)

// calendarYear is a year of a calendar at a glance.
type calendarYear struct {
	Year               int
	Months             []calendarMonth
	Excluded, Included int    // dates of the year
	LastDate           string // the last date that the calendar names, of any year
}

// Before returns the year before, 0 if calendars have no dates of it.
func (y calendarYear) Before() int { return inYears(y.Year - 1) }

// After returns the year after, 0 if calendars have no dates of it.
func (y calendarYear) After() int { return inYears(y.Year + 1) }

func inYears(year int) int {
	if year < firstYear || year > lastYear {
		return 0
	}
	return year
}

type calendarMonth struct {
	Number string // from 1; a key of texts
	Weeks  [][7]calendarDay
}

// calendarDay is a day of a month, or a cell without a day.
type calendarDay struct {
	Day   int
	Kind  string // why nothing is due: excluded, weekday, no_times; or included, an exception
	Today bool
}

// calendarYear returns the year that the address names, by default the present one in the
// calendar's zone. Weeks begin on Monday.
func (q *request) calendarYear(c *calendarBody) calendarYear {
	in := time.UTC
	if table, err := zone.Load(c.Zone); err == nil {
		in = table.Location()
	}
	today := q.page.opts.Now().In(in).Format(time.DateOnly)
	y := calendarYear{Year: q.page.opts.Now().In(in).Year()}
	if n, err := strconv.Atoi(q.r.URL.Query().Get("year")); err == nil && inYears(n) != 0 {
		y.Year = n
	}
	excluded, included := make(map[string]bool), make(map[string]bool)
	for _, date := range c.ExcludedDates {
		excluded[date], y.LastDate = true, max(y.LastDate, date)
	}
	for _, date := range c.IncludedDates {
		included[date], y.LastDate = true, max(y.LastDate, date)
	}
	allows := c.allowedDays()
	for month := time.January; month <= time.December; month++ {
		m := calendarMonth{Number: strconv.Itoa(int(month))}
		at := time.Date(y.Year, month, 1, 0, 0, 0, 0, time.UTC)
		var week [7]calendarDay
		for ; at.Month() == month; at = at.AddDate(0, 0, 1) {
			column := (int(at.Weekday()) + 6) % 7
			date := at.Format(time.DateOnly)
			d := calendarDay{Day: at.Day(), Today: date == today}
			switch {
			case included[date]:
				d.Kind = "included"
				y.Included++
			case excluded[date]:
				d.Kind = "excluded"
				y.Excluded++
			case slices.Contains(c.ExcludedWeekdays, weekdayKey(at.Weekday())):
				d.Kind = "weekday"
			case !allows(at):
				d.Kind = "no_times"
			}
			week[column] = d
			if column == len(week)-1 {
				m.Weeks, week = append(m.Weeks, week), [7]calendarDay{}
			}
		}
		if week[0].Day != 0 {
			m.Weeks = append(m.Weeks, week)
		}
		y.Months = append(y.Months, m)
	}
	return y
}

// allowedDays returns what the calendar itself says of a date, the midnight of which in UTC is given:
// whether it allows any moment of it.
func (c *calendarBody) allowedDays() func(date time.Time) bool {
	// Dates and times are those of the calendar's clock, so UTC stands for its zone.
	of := &timer.Calendar{
		Name: c.Name, ExcludedDates: c.ExcludedDates, IncludedDates: c.IncludedDates,
		ExcludedWeekdays: c.ExcludedWeekdays,
	}
	for _, r := range c.AllowedTimes {
		of.AllowedTimes = append(of.AllowedTimes, timer.TimeRange(r))
	}
	rules, err := calendar.New(of, nil)
	if err != nil { // a later release has written it: the page does not know better
		return func(time.Time) bool { return true }
	}
	set := calendar.NewSet(rules)
	return func(date time.Time) bool {
		return set.NextAllowed(date.Unix()) < date.AddDate(0, 0, 1).Unix()
	}
}

// weekdayKey returns the name of a weekday as the API has it.
func weekdayKey(d time.Weekday) string { return strings.ToLower(d.String()[:3]) }
