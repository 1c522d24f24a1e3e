package calendar

// Bounds of searches through several zones: outside the days of every zone.
const (
	searchFrom = (firstDay - 2) * secondsPerDay
	searchTo   = (lastDay + 2) * secondsPerDay
)

// quickRounds is how many steps a search tries before it goes on by weeks. They cover one or two
// weeks.
const quickRounds = 32

// nextAllowed lets the zones advance in turn, because the next allowed instant is mostly near. If it
// is not, they may have no time in common, and the search goes on by weeks.
func (s *Set) nextAllowed(unix int64, steps *int) int64 {
	if len(s.zones) < 2 {
		for _, t := range s.zones {
			unix = t.nextAllowed(unix, steps)
		}
		return unix
	}
	unix, agreed := s.forward(unix, searchTo, quickRounds, steps)
	if agreed {
		return unix
	}
	return s.Search(nil, nil).next(unix, searchTo, steps)
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
	if agreed {
		return unix
	}
	return s.Search(nil, nil).prev(unix, steps)
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
