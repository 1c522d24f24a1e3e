package calendar

import (
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Set is calendars that rule together: an instant must be allowed by all of them. It gives the same
// answers for ever, and is safe for concurrent use.
//
// A search takes steps from day to day where the next allowed one is near, and from change to
// change of a wall clock, or from included date to included date, where the weekly rules have no
// time in common: that there is none up to 2199 takes thousands of steps, not a hundred thousand
// days of every calendar. What took many steps is remembered, as whoever asks for one instant of a
// stretch asks for others of it.
type Set struct {
	rules []*Rules         // in the order in which reasons are looked for
	zones []*zoneCalendars // the same by zone

	excludedCache atomic.Pointer[stretch] // [from, to) is excluded, and what borders on it is not
	allowedCache  atomic.Pointer[stretch] // [from, to) is allowed, and to is not
}

// stretch is the instants [from, to).
type stretch struct{ from, to int64 }

func (s *stretch) has(unix int64) bool { return s != nil && s.from <= unix && unix < s.to }

// longSearch is how many steps a search takes whose answer is remembered.
const longSearch = 16

// NewSet returns the set of some calendars. One of none allows everything.
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

// Allows tells whether every calendar allows an instant (unix seconds).
func (s *Set) Allows(unix int64) bool {
	for _, r := range s.rules {
		if !r.Allows(unix) {
			return false
		}
	}
	return true
}

// NextAllowed returns the first instant at or after another that every calendar allows, Never if
// there is none.
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

// PrevAllowed returns the last second at or before an instant that every calendar allows, -Never if
// there is none.
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

// NextExcluded returns the first instant at or after another that a calendar does not allow, Never
// if there is none.
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

// MayAllow tells whether the calendars can allow any time of day, by the wall clock of a zone, on any
// of some weekdays (bit n: n days after Sunday). next lists the times: it returns the first at or
// after a second of the day, -1 if there is none. False is certain.
func (s *Set) MayAllow(z *zone.Table, weekdays uint64, next func(second int) int) bool {
	t := s.ofZone(z)
	if t != nil && !t.mayAllow(weekdays, next) {
		return false
	}
	return t != nil && len(s.zones) == 1 || s.mayAllowAcross(z, weekdays, next)
}

// Why says which calendar and which rule of it exclude an instant; empty if none does.
func (s *Set) Why(unix int64) string {
	for _, r := range s.rules {
		if why := r.Why(unix); why != "" {
			return why
		}
	}
	return ""
}
