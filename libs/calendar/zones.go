package calendar

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Where searches through several zones end: outside the days of every zone.
const (
	searchFrom = (firstDay - 2) * secondsPerDay
	searchTo   = (lastDay + 2) * secondsPerDay
)

// quickRounds is how many turns zones take before a search asks what they can have in common at all:
// a week or two of them.
const quickRounds = 32

// nextAllowed goes from change to change of a wall clock. Between two of them all zones run evenly,
// so that what they have in common is the same every week, but for dates that are named. Where that
// is nothing, only included dates are looked at.
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

// forward lets one zone after the other go on to what it allows, until all agree on an instant, or
// none before the end can be, or they had so many turns. All instants that are passed are excluded.
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

// backward is forward the other way; begin is the first instant that counts.
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

// weeklyOverlaps is what one search found out of how the weekly rules of several zones meet. It depends
// on how far their wall clocks are apart, for which there are few ways.
type weeklyOverlaps struct {
	offsets   []int64 // of the stretch that around returned, by zone
	distances []int64 // distances from the first zone, so many for each answer
	answers   []bool
	counts    func(week []span) bool // whether what they have in common is something
}

// mayAllowAcross is Meets where zones differ.
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
			return true // who knows
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

// evenStretch returns the stretch around an instant within which no wall clock is changed.
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

// overlap tells whether the weekly rules have any time in common within that stretch.
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

// week returns what the weekly rules allow of a week whose wall clock is ahead of another one, in
// seconds since that one showed Sunday.
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

// nextIncluded returns the first included date of any zone that ends behind an instant, by the
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
