package timer_test

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// A fire's id names its timer, its due instant and its series.
func ExampleParseFireID() {
	id, err := timer.ParseFireID("42-1767225600000-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.Timer, time.UnixMilli(id.DueMS).UTC().Format(time.RFC3339), id.Series)
	fmt.Println(timer.FireID{Timer: 42, DueMS: 1_767_225_600_000})
	// Output:
	// 42 2026-01-01T00:00:00Z 7
	// 42-1767225600000
}

// Durations of the API may have days.
func ExampleParseDuration() {
	d, err := timer.ParseDuration("1d12h")
	fmt.Println(time.Duration(d), err)
	// Output: 36h0m0s <nil>
}

// A retry waits longer each time, and ends when no attempt is left.
func ExampleRetry_Next() {
	r := timer.DefaultRetry()
	for attempt := 1; attempt <= r.Attempts; attempt++ {
		wait, end := r.Next(timer.FailedAttempt{Attempt: attempt, Status: 503})
		fmt.Printf("after attempt %d: wait %s, end %q\n", attempt, wait, end)
	}
	// Output:
	// after attempt 1: wait 1s, end ""
	// after attempt 2: wait 2s, end ""
	// after attempt 3: wait 0s, end "exhausted"
}

// Statuses are single values and ranges.
func ExampleParseStatuses() {
	s, err := timer.ParseStatuses("200-299,409")
	fmt.Println(s.Contains(204), s.Contains(409), s.Contains(500), err)
	// Output: true true false <nil>
}
