package calendar

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Rules is a calendar that is ready for use. It is immutable and safe for concurrent use.
type Rules struct {
	name               string
	zone               *zone.Table
	excluded, included []int32 // days since 1970-01-01, ascending
	excludedDays       uint8   // set of weekdays
	ranged             bool    // the calendar has ranges of allowed times
	onWeekday          [daysPerWeek][]span
	onIncluded         []span
}

// span is a range of seconds since midnight; to is exclusive.
type span struct{ from, to int32 }

// Never means that there is no instant. Calendars cover only 1970 to 2199.
const Never int64 = 1 << 62

const (
	firstDay = 0
	lastDay  = 84_006 // 2200-01-01
)

// spans returns the allowed spans of a day.
func (r *Rules) spans(day int64) []span {
	d := int32(day) //nolint:gosec // callers stay between firstDay and lastDay, or a day off
	if has(r.included, d) {
		return r.onIncluded
	}
	w := weekdayOf(day)
	if r.excludedDays>>w&1 != 0 || has(r.excluded, d) {
		return nil
	}
	return r.onWeekday[w]
}

func has(days []int32, d int32) bool {
	_, ok := slices.BinarySearch(days, d)
	return ok
}

func weekdayOf(day int64) int {
	const epochWeekday = 4 // 1970-01-01 was a Thursday
	return int(((day+epochWeekday)%daysPerWeek + daysPerWeek) % daysPerWeek)
}

// Allows reports whether the calendar allows an instant (Unix seconds).
func (r *Rules) Allows(unix int64) bool {
	local := unix + r.zone.OffsetAt(unix)
	day := floorDay(local)
	return contains(r.spans(day), int32(local-day*secondsPerDay)) //nolint:gosec // seconds of a day
}

func contains(spans []span, second int32) bool {
	for _, s := range spans {
		if second < s.to {
			return second >= s.from
		}
	}
	return false
}

// Why returns the rule that excludes an instant, or "" if none does.
func (r *Rules) Why(unix int64) string {
	local := unix + r.zone.OffsetAt(unix)
	day := floorDay(local)
	spans := r.spans(day)
	if contains(spans, int32(local-day*secondsPerDay)) { //nolint:gosec // seconds of a day
		return ""
	}
	d, at := int32(day), time.Unix(local, 0).UTC() //nolint:gosec // as in spans
	var rule string
	switch w := weekdayOf(day); {
	case has(r.included, d):
		rule = at.Format(time.TimeOnly) + " is not among the allowed times"
	case has(r.excluded, d):
		rule = at.Format(time.DateOnly) + " is an excluded date"
	case r.excludedDays>>w&1 != 0:
		rule = weekdayNames[w] + " is an excluded weekday"
	case len(spans) == 0:
		rule = weekdayNames[w] + " has no allowed times"
	default:
		rule = at.Format(time.TimeOnly) + " is not among the allowed times"
	}
	return fmt.Sprintf("calendar %q: %s", r.name, rule)
}

func floorDay(local int64) int64 {
	day := local / secondsPerDay
	if local%secondsPerDay < 0 {
		day--
	}
	return day
}
