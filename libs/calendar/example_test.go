package calendar_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// An included date is a workday, although its weekday is excluded.
func Example() {
	rules, err := calendar.New(&timer.Calendar{
		Name:             "work",
		ExcludedWeekdays: []string{"sat", "sun"},
		IncludedDates:    []string{"2026-10-10"},
		AllowedTimes:     []timer.TimeRange{{From: "09:00", To: "17:00"}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"2026-10-09 12:00:00", "2026-10-09 18:00:00", "2026-10-10 12:00:00", "2026-10-11 12:00:00"} {
		at, err := time.Parse(time.DateTime, text)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(at.Format("Mon 15:04"), rules.Allows(at.Unix()))
	}
	// Output:
	// Fri 12:00 true
	// Fri 18:00 false
	// Sat 12:00 true
	// Sun 12:00 false
}

// Several calendars rule together.
func ExampleSet_NextAllowed() {
	weekdays, err := calendar.New(
		&timer.Calendar{Name: "weekdays", ExcludedWeekdays: []string{"sat", "sun"}},
		nil,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	holidays, err := calendar.New(
		&timer.Calendar{Name: "holidays", ExcludedDates: []string{"2026-12-28"}},
		nil,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	set := calendar.NewSet(weekdays, holidays)
	saturday := time.Date(2026, time.December, 26, 12, 0, 0, 0, time.UTC)
	fmt.Println(time.Unix(set.NextAllowed(saturday.Unix()), 0).UTC().Format("Mon 2006-01-02 15:04"))
	// Output: Tue 2026-12-29 00:00
}

// Holidays come from an iCalendar file.
func ExampleParseICS() {
	const file = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20251225\r\n" +
		"RRULE:FREQ=YEARLY;COUNT=3\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	dates, err := calendar.ParseICS(strings.NewReader(file), calendar.ICS{
		Now: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(dates.Dates)
	// Output: [2025-12-25 2026-12-25 2027-12-25]
}
