package calendar

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/zone"
)

// zoneCalendars are the calendars of one zone, prepared to search its wall clock for times that all
// of them allow.
type zoneCalendars struct {
	zone         *zone.Table
	rules        []*Rules
	onWeekday    [daysPerWeek][]span // allowed spans of dates that no calendar names
	allowsSome   bool                // some weekday has allowed times
	excludesSome bool                // some weekday has excluded times
	named        []int32             // dates named by any calendar, ascending
	included     []int32             // dates included by any calendar
}

func newZoneCalendars(z *zone.Table, rules []*Rules) *zoneCalendars {
	t := &zoneCalendars{zone: z, rules: rules}
	for _, r := range rules {
		t.included = union(t.included, r.included)
		t.named = union(union(t.named, r.excluded), r.included)
	}
	for w := range t.onWeekday {
		t.onWeekday[w] = rules[0].weekly(w)
		for _, r := range rules[1:] {
			t.onWeekday[w] = common(t.onWeekday[w], r.weekly(w))
		}
		t.allowsSome = t.allowsSome || len(t.onWeekday[w]) > 0
		t.excludesSome = t.excludesSome || !whole(t.onWeekday[w])
	}
	return t
}

// weekly returns the allowed spans of a weekday, regardless of dates.
func (r *Rules) weekly(weekday int) []span {
	if r.excludedDays>>weekday&1 != 0 {
		return nil
	}
	return r.onWeekday[weekday]
}

// union returns the days of two ascending lists without duplicates. It may return one of its
// arguments.
func union(a, b []int32) []int32 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make([]int32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		day := min(a[0], b[0])
		out = append(out, day)
		if a[0] == day {
			a = a[1:]
		}
		if b[0] == day {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// common returns the intersection of two ascending lists of spans.
func common(a, b []span) []span {
	var out []span
	for len(a) > 0 && len(b) > 0 {
		if both := (span{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}); both.from < both.to {
			out = append(out, both)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// whole reports whether spans are the whole day. Adjacent spans are already merged.
func whole(spans []span) bool { return len(spans) == 1 && spans[0] == span{0, secondsPerDay} }

// spans returns the spans of a day that all calendars allow.
func (t *zoneCalendars) spans(day int64) []span {
	//nolint:gosec // callers stay between firstDay and lastDay, or a day off
	if !has(t.named, int32(day)) {
		return t.onWeekday[weekdayOf(day)]
	}
	out := t.rules[0].spans(day)
	for _, r := range t.rules[1:] {
		out = common(out, r.spans(day))
	}
	return out
}

func (t *zoneCalendars) nextAllowed(unix int64, steps *int) int64 {
	return t.forward(unix, func(local int64) int64 { return t.nextAllowedLocal(local, steps) })
}

func (t *zoneCalendars) nextExcluded(unix int64, steps *int) int64 {
	return t.forward(unix, func(local int64) int64 { return t.nextExcludedLocal(local, steps) })
}

// forward searches the wall clock, one stretch of the zone after the other. A result for one local
// time also holds for all later ones up to the result.
func (t *zoneCalendars) forward(unix int64, search func(local int64) int64) int64 {
	z := t.zone
	begun, found := Never, -Never
	for i := z.At(unix); i < z.Len(); i++ {
		offset, end := z.Offset(i), z.End(i)
		if from := max(unix, z.Start(i)) + offset; from < begun || from > found {
			begun, found = from, search(from)
		}
		if found < end+offset {
			return found - offset
		}
	}
	return Never
}

func (t *zoneCalendars) prevAllowed(unix int64, steps *int) int64 {
	z := t.zone
	begun, found := -Never, Never
	for i := z.At(unix); i >= 0; i-- {
		offset := z.Offset(i)
		if from := min(unix, z.End(i)-1) + offset; from > begun || from < found {
			begun, found = from, t.prevAllowedLocal(from, steps)
		}
		if found >= z.Start(i)+offset {
			return found - offset
		}
	}
	return -Never
}

func (t *zoneCalendars) nextAllowedLocal(local int64, steps *int) int64 {
	day := max(floorDay(local), firstDay)
	//nolint:gosec // seconds of a day
	for second := int32(max(0, local-day*secondsPerDay)); day < lastDay; second = 0 {
		*steps++
		for _, s := range t.spans(day) {
			if second < s.to {
				return day*secondsPerDay + int64(max(second, s.from))
			}
		}
		if day++; !t.allowsSome {
			day = nextOf(t.included, day)
		}
	}
	return Never // after the end of every stretch
}

func (t *zoneCalendars) nextExcludedLocal(local int64, steps *int) int64 {
	day := max(floorDay(local), firstDay)
	//nolint:gosec // seconds of a day
	for second := int32(max(0, local-day*secondsPerDay)); day < lastDay; second = 0 {
		*steps++
		for _, s := range t.spans(day) {
			if second >= s.from && second < s.to {
				second = s.to
			}
		}
		if second < secondsPerDay {
			return day*secondsPerDay + int64(second)
		}
		if day++; !t.excludesSome {
			day = nextOf(t.named, day)
		}
	}
	return Never
}

func (t *zoneCalendars) prevAllowedLocal(local int64, steps *int) int64 {
	day := min(floorDay(local), lastDay-1)
	//nolint:gosec // seconds of a day
	for second := int32(min(secondsPerDay-1, local-day*secondsPerDay)); day >= firstDay; second = secondsPerDay - 1 {
		*steps++
		for _, s := range slices.Backward(t.spans(day)) {
			if second >= s.from {
				return day*secondsPerDay + int64(min(second, s.to-1))
			}
		}
		if day--; !t.allowsSome {
			day = prevOf(t.included, day)
		}
	}
	return -Never
}

// nextOf returns the first of ascending days at or after a day, or lastDay.
func nextOf(days []int32, day int64) int64 {
	if i, _ := slices.BinarySearch(days, int32(day)); i < len(days) { //nolint:gosec // as in spans
		return int64(days[i])
	}
	return lastDay
}

// prevOf returns the last of ascending days at or before a day, or firstDay - 1.
func prevOf(days []int32, day int64) int64 {
	if i, _ := slices.BinarySearch(days, int32(day+1)); i > 0 { //nolint:gosec // as in spans
		return int64(days[i-1])
	}
	return firstDay - 1
}
