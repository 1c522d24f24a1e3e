package calendar

import (
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Set combines calendars: an instant must be allowed by all of them. Its results never change, and
// it is safe for concurrent use.
//
// A search steps by days if the next allowed day is near. If the weekly rules have no time in
// common, it steps by clock changes or included dates. So it proves in thousands of steps that
// nothing is allowed up to 2199, without visiting a hundred thousand days of every calendar. The
// result of a long search is cached, because callers often ask for several instants of one stretch.
type Set struct {
	rules []*Rules         // in the order in which Why checks them
	zones []*zoneCalendars // the same rules by zone

	excludedCache atomic.Pointer[stretch] // [from, to) is excluded, and its neighbours are not
	allowedCache  atomic.Pointer[stretch] // [from, to) is allowed, and to is not
}

// stretch is the range of instants [from, to).
type stretch struct{ from, to int64 }

func (s *stretch) has(unix int64) bool { return s != nil && s.from <= unix && unix < s.to }

// longSearch is the number of steps from which a result is cached.
const longSearch = 16

// NewSet returns the set of the given calendars. An empty set allows everything.
func NewSet(rules ...*Rules) *Set {
	s := &Set{rules: rules}
	for i, r := range rules {
		if s.ofZone(r.zone) != nil {
			continue
		}
		same := []*Rules{r}
		for _, other := range rules[i+1:] {
			if other.zone == r.zone {
				same = append(same, other)
			}
		}
		s.zones = append(s.zones, newZoneCalendars(r.zone, same))
	}
	return s
}

func (s *Set) ofZone(z *zone.Table) *zoneCalendars {
	for _, t := range s.zones {
		if t.zone == z {
			return t
		}
	}
	return nil
}

// Allows reports whether every calendar allows an instant (Unix seconds).
func (s *Set) Allows(unix int64) bool {
	for _, r := range s.rules {
		if !r.Allows(unix) {
			return false
		}
	}
	return true
}

// NextAllowed returns the first instant at or after the given one that every calendar allows, or
// Never.
func (s *Set) NextAllowed(unix int64) int64 {
	if known := s.excludedCache.Load(); known.has(unix) {
		return known.to
	}
	steps := 0
	at := s.nextAllowed(unix, &steps)
	if steps > longSearch && at != unix {
		s.excludedCache.Store(&stretch{s.prevAllowed(unix, &steps) + 1, at})
	}
	return at
}

// PrevAllowed returns the last second at or before the given instant that every calendar allows, or
// -Never.
func (s *Set) PrevAllowed(unix int64) int64 {
	if known := s.excludedCache.Load(); known.has(unix) {
		return known.from - 1
	}
	steps := 0
	at := s.prevAllowed(unix, &steps)
	if steps > longSearch && at != unix {
		s.excludedCache.Store(&stretch{at + 1, s.nextAllowed(unix, &steps)})
	}
	return at
}

// NextExcluded returns the first instant at or after the given one that some calendar excludes, or
// Never.
func (s *Set) NextExcluded(unix int64) int64 {
	if known := s.allowedCache.Load(); known.has(unix) {
		return known.to
	}
	first, steps := Never, 0
	for _, t := range s.zones {
		first = min(first, t.nextExcluded(unix, &steps))
	}
	if steps > longSearch && first != unix {
		s.allowedCache.Store(&stretch{unix, first})
	}
	return first
}

// Why returns the calendar and the rule that exclude an instant, or "" if none does.
func (s *Set) Why(unix int64) string {
	for _, r := range s.rules {
		if why := r.Why(unix); why != "" {
			return why
		}
	}
	return ""
}
