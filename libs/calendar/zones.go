package calendar

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Bounds of searches through several zones: outside the days of every zone.
const (
	searchFrom = (firstDay - 2) * secondsPerDay
	searchTo   = (lastDay + 2) * secondsPerDay
)

// quickRounds is how many steps a search tries before it checks whether the zones have any time in
// common. They cover one or two weeks.
const quickRounds = 32

// nextAllowed steps from clock change to clock change. Between two changes the offsets of all zones
// are constant. So their common allowed times are the same every week, except for named dates. If
// the zones have none in common, only included dates are checked.
func (s *Set) nextAllowed(unix int64, steps *int) int64 {
	if len(s.zones) < 2 {
		for _, t := range s.zones {
			unix = t.nextAllowed(unix, steps)
		}
		return unix
	}
	unix, agreed := s.forward(unix, searchTo, quickRounds, steps)
	for known := (weeklyOverlaps{}); !agreed && unix < searchTo; *steps++ {
		unix = max(unix, searchFrom)
		even := known.evenStretch(s.zones, unix)
		if !known.overlap(s.zones) {
			day := known.nextIncluded(s.zones, unix)
			if day.from >= even.to {
				unix = even.to
				continue
			}
			unix, even.to = max(unix, day.from), min(even.to, day.to)
		}
		unix, agreed = s.forward(unix, even.to, -1, steps)
	}
	if !agreed {
		return Never
	}
	return unix
}

// prevAllowed is nextAllowed backwards.
func (s *Set) prevAllowed(unix int64, steps *int) int64 {
	if len(s.zones) < 2 {
		for _, t := range s.zones {
			unix = t.prevAllowed(unix, steps)
		}
		return unix
	}
	unix, agreed := s.backward(unix, searchFrom, quickRounds, steps)
	for known := (weeklyOverlaps{}); !agreed && unix >= searchFrom; *steps++ {
		unix = min(unix, searchTo)
		even := known.evenStretch(s.zones, unix)
		if !known.overlap(s.zones) {
			day := known.prevIncluded(s.zones, unix)
			if day.to <= even.from {
				unix = even.from - 1
				continue
			}
			unix, even.from = min(unix, day.to-1), max(even.from, day.from)
		}
		unix, agreed = s.backward(unix, even.from, -1, steps)
	}
	if !agreed {
		return -Never
	}
	return unix
}

// forward lets the zones advance in turn to their next allowed instant. It stops when all agree on
// an instant, when end is reached, or after the given number of turns. All skipped instants are
// excluded.
func (s *Set) forward(unix, end int64, turns int, steps *int) (int64, bool) {
	for i, agreed := 0, 0; agreed < len(s.zones); i++ {
		if unix >= end || i == turns {
			return unix, false
		}
		at := s.zones[i%len(s.zones)].nextAllowed(unix, steps)
		if at != unix {
			agreed = 0
		}
		agreed++
		unix = at
	}
	return unix, true
}

// backward is forward in the other direction; begin is the first valid instant.
func (s *Set) backward(unix, begin int64, turns int, steps *int) (int64, bool) {
	for i, agreed := 0, 0; agreed < len(s.zones); i++ {
		if unix < begin || i == turns {
			return unix, false
		}
		at := s.zones[i%len(s.zones)].prevAllowed(unix, steps)
		if at != unix {
			agreed = 0
		}
		agreed++
		unix = at
	}
	return unix, true
}

// weeklyOverlaps caches, for one search, whether the weekly rules of several zones overlap. The
// answer depends only on the distances between their wall clocks, of which there are few
// combinations.
type weeklyOverlaps struct {
	offsets   []int64 // by zone, in the stretch that evenStretch returned
	distances []int64 // distances from the first zone, one group per answer
	answers   []bool
	counts    func(week []span) bool // whether a common week counts as an overlap
}

// mayAllowAcross is MayAllow for several zones.
func (s *Set) mayAllowAcross(z *zone.Table, weekdays uint64, next func(second int) int) bool {
	times := &zoneCalendars{zone: z}
	for w := range times.onWeekday {
		if weekdays>>w&1 != 0 {
			times.onWeekday[w] = []span{{0, secondsPerDay}}
		}
	}
	zones := []*zoneCalendars{times}
	for _, t := range s.zones {
		if len(t.included) > 0 {
			return true // unknown
		}
		zones = append(zones, t)
	}
	m := weeklyOverlaps{counts: func(week []span) bool {
		for _, s := range week {
			for day := s.from / secondsPerDay * secondsPerDay; day < s.to; day += secondsPerDay {
				if meet([]span{{max(s.from-day, 0), min(s.to-day, secondsPerDay)}}, next) {
					return true
				}
			}
		}
		return false
	}}
	for unix := int64(searchFrom); unix < searchTo; {
		even := m.evenStretch(zones, unix)
		if m.overlap(zones) {
			return true
		}
		unix = even.to
	}
	return false
}

// evenStretch returns the stretch around an instant without a clock change in any zone.
func (m *weeklyOverlaps) evenStretch(zones []*zoneCalendars, unix int64) stretch {
	m.offsets = m.offsets[:0]
	even := stretch{-Never, Never}
	for _, t := range zones {
		i := t.zone.At(unix)
		m.offsets = append(m.offsets, t.zone.Offset(i))
		even.from, even.to = max(even.from, t.zone.Start(i)), min(even.to, t.zone.End(i))
	}
	return even
}

// overlap reports whether the weekly rules have any time in common in that stretch.
func (m *weeklyOverlaps) overlap(zones []*zoneCalendars) bool {
	n := len(zones)
	for k, answer := range slices.Backward(m.answers) {
		if same(m.distances[k*n:(k+1)*n], m.offsets) {
			return answer
		}
	}
	week := []span{{0, daysPerWeek * secondsPerDay}}
	for i, t := range zones {
		m.distances = append(m.distances, m.offsets[i]-m.offsets[0])
		week = common(week, t.week(m.distances[len(m.distances)-1]))
	}
	answer := len(week) > 0 && (m.counts == nil || m.counts(week))
	m.answers = append(m.answers, answer)
	return answer
}

func same(distances, offsets []int64) bool {
	for i, distance := range distances {
		if offsets[i]-offsets[0] != distance {
			return false
		}
	}
	return true
}

// week returns the allowed spans of a week, in seconds since a reference clock showed Sunday. The
// wall clock of the calendars is ahead of the reference.
func (t *zoneCalendars) week(ahead int64) []span {
	const length = daysPerWeek * secondsPerDay
	var out []span
	for w, spans := range t.onWeekday {
		for _, s := range spans {
			from := (int64(w)*secondsPerDay + int64(s.from) - ahead + length) % length
			to := from + int64(s.to-s.from)
			//nolint:gosec // seconds of a week
			out = append(out, span{int32(from), int32(min(to, length))})
			if to > length {
				out = append(out, span{0, int32(to - length)}) //nolint:gosec // seconds of a week
			}
		}
	}
	return merged(out)
}

// nextIncluded returns the first included date of any zone that ends after an instant, by the
// offsets of its stretch.
func (m *weeklyOverlaps) nextIncluded(zones []*zoneCalendars, unix int64) stretch {
	first := stretch{Never, Never}
	for i, t := range zones {
		offset := m.offsets[i]
		if day := nextOf(t.included, floorDay(unix+offset)); day < lastDay {
			if begin := day*secondsPerDay - offset; begin < first.from {
				first = stretch{begin, begin + secondsPerDay}
			}
		}
	}
	return first
}

// prevIncluded returns the last included date of any zone that begins at or before an instant.
func (m *weeklyOverlaps) prevIncluded(zones []*zoneCalendars, unix int64) stretch {
	last := stretch{-Never, -Never}
	for i, t := range zones {
		offset := m.offsets[i]
		if day := prevOf(t.included, floorDay(unix+offset)); day >= firstDay {
			if begin := day*secondsPerDay - offset; begin > last.from {
				last = stretch{begin, begin + secondsPerDay}
			}
		}
	}
	return last
}
