package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A cron expression in a time zone keeps its local time when the clock changes.
func Example() {
	p, err := schedule.Parse(timer.Schedule{
		Kind: timer.KindCron, Specs: []string{"0 9 * * mon-fri"}, Zone: "Europe/Berlin",
	}, schedule.Inputs{})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 26, 12, 0, 0, 0, time.UTC).UnixMilli()
	for range 3 {
		at = p.Next(at, 0)
		fmt.Println(time.UnixMilli(at).UTC().Format("Mon 2006-01-02 15:04 MST"))
	}
	// Output:
	// Fri 2026-03-27 08:00 UTC
	// Mon 2026-03-30 07:00 UTC
	// Tue 2026-03-31 07:00 UTC
}

// An interval without an anchor counts from the timer's first activation.
func ExampleParsed_Next() {
	p, err := schedule.Parse(timer.Schedule{
		Kind: timer.KindInterval, Every: timer.Duration(90 * time.Minute),
	}, schedule.Inputs{})
	if err != nil {
		fmt.Println(err)
		return
	}
	activated := time.Date(2026, time.January, 31, 10, 0, 0, 0, time.UTC)
	now := activated.Add(100 * time.Minute)
	next := p.Next(now.UnixMilli(), activated.UnixMilli())
	fmt.Println(time.UnixMilli(next).UTC().Format(time.DateTime))
	// Output: 2026-01-31 13:00:00
}

// A preview also tells which instants are left out, and why.
func ExamplePreview() {
	holidays := timer.Calendar{Name: "holidays", ExcludedDates: []string{"2026-12-25"}}
	from := time.Date(2026, time.December, 24, 0, 0, 0, 0, time.UTC).UnixMilli()
	forecast, err := schedule.Preview(context.Background(), timer.Schedule{
		Kind: timer.KindCron, Specs: []string{"@daily"}, Calendars: []string{"holidays"},
	}, schedule.Inputs{Calendars: []timer.Calendar{holidays}}, from, from, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range forecast.Fires {
		fmt.Println("due", f.Local)
	}
	for _, e := range forecast.Excluded {
		fmt.Println("excluded", e.Local)
	}
	// Output:
	// due 2026-12-26T00:00:00Z
	// due 2026-12-27T00:00:00Z
	// excluded 2026-12-25T00:00:00Z
}

// An expression that can be read and never matches is refused.
func ExampleCheck() {
	err := schedule.Check(&timer.Schedule{Kind: timer.KindCron, Specs: []string{"0 0 30 2 *"}})
	fmt.Println(timer.CodeOf(err))
	// Output: invalid
}

// Jitter is the same in every process.
func ExampleJitter() {
	limit := timer.Duration(time.Minute)
	a, b := schedule.Jitter(
		42,
		1_767_225_600_000,
		limit,
	), schedule.Jitter(
		42,
		1_767_225_600_000,
		limit,
	)
	fmt.Println(a == b, 0 <= a, a <= time.Duration(limit).Milliseconds())
	// Output: true true true
}
