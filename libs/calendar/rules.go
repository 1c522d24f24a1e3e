package calendar

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Rules is a calendar made ready. It is immutable and safe for concurrent use.
type Rules struct {
	name               string
	zone               *zone.Table
	excluded, included []int32 // days since 1970-01-01, ascending
	excludedDays       uint8   // weekdays
	ranged             bool    // there are ranges of allowed times
	onWeekday          [daysPerWeek][]span
	onIncluded         []span
}

// span is a stretch of a day: seconds since midnight, to is not in it.
type span struct{ from, to int32 }

// Never is the answer that no such instant is there. None lies outside 1970 to 2199, as far as calendars are concerned.
const Never int64 = 1 << 62

const (
	firstDay = 0
	lastDay  = 84_006 // 2200-01-01
)

// spans returns what is allowed of a day.
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

// Allows tells whether the calendar allows an instant (unix seconds).
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

// NextAllowed returns the first instant at or after another that the calendar allows, Never if there is none.
func (r *Rules) NextAllowed(unix int64) int64 { return r.forward(unix, r.nextAllowedLocal) }

// NextExcluded returns the first instant at or after another that the calendar does not allow, Never if there is none.
func (r *Rules) NextExcluded(unix int64) int64 { return r.forward(unix, r.nextExcludedLocal) }

// forward searches the wall clock, stretch by stretch of the zone.
func (r *Rules) forward(unix int64, search func(local int64) int64) int64 {
	for i := r.zone.At(unix); i < r.zone.Len(); i++ {
		offset, end := r.zone.Offset(i), r.zone.End(i)
		local := search(max(unix, r.zone.Start(i)) + offset)
		if local < end+offset {
			return local - offset
		}
	}
	return Never
}

// PrevAllowed returns the last second at or before an instant that the calendar allows, -Never if there is none.
func (r *Rules) PrevAllowed(unix int64) int64 {
	for i := r.zone.At(unix); i >= 0; i-- {
		offset := r.zone.Offset(i)
		local := r.prevAllowedLocal(min(unix, r.zone.End(i)-1) + offset)
		if local != -Never && local >= r.zone.Start(i)+offset {
			return local - offset
		}
	}
	return -Never
}

func (r *Rules) nextAllowedLocal(local int64) int64 {
	day := max(floorDay(local), firstDay)
	for second := int32(max(0, local-day*secondsPerDay)); day < lastDay; second = 0 { //nolint:gosec // seconds of a day
		for _, s := range r.spans(day) {
			if second < s.to {
				return day*secondsPerDay + int64(max(second, s.from))
			}
		}
		day = r.mayAllow(day + 1)
	}
	return Never // behind the end of every stretch
}

// mayAllow returns the first day at or after another that can be allowed: where all weekdays are excluded, an included one.
func (r *Rules) mayAllow(day int64) int64 {
	for w := range r.onWeekday {
		if r.excludedDays>>w&1 == 0 && len(r.onWeekday[w]) > 0 {
			return day
		}
	}
	if i, _ := slices.BinarySearch(r.included, int32(day)); i < len(r.included) { //nolint:gosec // as in spans
		return int64(r.included[i])
	}
	return lastDay
}

func (r *Rules) nextExcludedLocal(local int64) int64 {
	day := max(floorDay(local), firstDay)
	for second := int32(max(0, local-day*secondsPerDay)); day < lastDay; second = 0 { //nolint:gosec // seconds of a day
		for _, s := range r.spans(day) {
			if second >= s.from && second < s.to {
				second = s.to
			}
		}
		if second < secondsPerDay {
			return day*secondsPerDay + int64(second)
		}
		day = r.mayExclude(day + 1)
	}
	return Never
}

// mayExclude returns the first day at or after another of which something can be excluded: where no rule is weekly, an excluded one.
func (r *Rules) mayExclude(day int64) int64 {
	if r.excludedDays != 0 || r.ranged {
		return day
	}
	if i, _ := slices.BinarySearch(r.excluded, int32(day)); i < len(r.excluded) { //nolint:gosec // as in spans
		return int64(r.excluded[i])
	}
	return lastDay
}

func (r *Rules) prevAllowedLocal(local int64) int64 {
	day := min(floorDay(local), lastDay-1)
	for second := int32(min(secondsPerDay-1, local-day*secondsPerDay)); day >= firstDay; day, second = day-1, secondsPerDay-1 { //nolint:gosec // seconds of a day
		for _, s := range slices.Backward(r.spans(day)) {
			if second >= s.from {
				return day*secondsPerDay + int64(min(second, s.to-1))
			}
		}
	}
	return -Never
}

// Why says which rule excludes an instant; empty if none does.
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

// Zone returns the zone by whose wall clock the calendar rules.
func (r *Rules) Zone() *zone.Table { return r.zone }

// Meets tells whether the calendar can allow any time of day on any of some weekdays (bit n: n days after Sunday). next lists the times:
// it returns the first at or after a second of the day, -1 if there is none. False is certain; true may be so for included dates only.
func (r *Rules) Meets(weekdays uint64, next func(second int) int) bool {
	if len(r.included) > 0 && meet(r.onIncluded, next) {
		return true
	}
	for w := range r.onWeekday {
		if weekdays>>w&1 != 0 && r.excludedDays>>w&1 == 0 && meet(r.onWeekday[w], next) {
			return true
		}
	}
	return false
}

func meet(spans []span, next func(second int) int) bool {
	for _, s := range spans {
		if at := next(int(s.from)); at >= 0 && at < int(s.to) {
			return true
		}
	}
	return false
}
