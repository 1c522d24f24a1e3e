package timer

import "slices"

// Inactivity is a period in which a timer was not active: from FromMS inclusive to UntilMS
// exclusive. Fires due within it are never called, whenever they are processed.
type Inactivity struct {
	FromMS  int64  // unix ms, inclusive
	UntilMS int64  // unix ms, exclusive; NeverMS while the end is unknown
	Status  Status // StatusPaused or StatusInactive
}

// Covers reports whether an instant (Unix ms) lies within the period.
func (i Inactivity) Covers(dueMS int64) bool { return i.FromMS <= dueMS && dueMS < i.UntilMS }

// Reason returns why a fire due within the period is skipped.
func (i Inactivity) Reason() Reason {
	if i.Status == StatusPaused {
		return ReasonPaused
	}
	return ReasonInactive
}

// DeferredMS is the run time of a fire that waits for its timer to become active, if the end of the
// pause is unknown. It is the last minute that a slice can have, and no slice of it is ever
// dispatched.
const DeferredMS int64 = (1<<31 - 1) * MinuteMS

// ActiveAt reports whether the timer is active at an instant (Unix ms) not before the state was
// read. A pause with an end ends at that instant, even before the store records it.
func (s *State) ActiveAt(nowMS int64) bool {
	return s.Status == StatusActive ||
		s.Status == StatusPaused && s.PausedUntilMS > 0 && s.PausedUntilMS <= nowMS
}

// ActiveFromMS returns since when the timer is active, or from when it will be (Unix ms). NeverMS
// means that it is inactive and the end is unknown.
func (s *State) ActiveFromMS() int64 {
	if s.Status == StatusActive {
		return s.ActiveSinceMS
	}
	return s.currentInactivity().UntilMS
}

// currentInactivity returns the period in which the timer is inactive now. Call it only for an
// inactive timer.
func (s *State) currentInactivity() Inactivity {
	i := Inactivity{FromMS: s.InactiveSinceMS, UntilMS: NeverMS, Status: s.Status}
	if s.Status == StatusPaused && s.PausedUntilMS > 0 {
		i.UntilMS = max(s.PausedUntilMS, i.FromMS)
	}
	return i
}

// Inactivities returns the inactive periods of the timer. past are those before the current one.
func (s *State) Inactivities(past []Inactivity) []Inactivity {
	if s.Status != StatusInactive && s.Status != StatusPaused {
		return past
	}
	return append(slices.Clone(past), s.currentInactivity())
}

// SkipReasonAt returns why an instant of the schedule is not due, or ReasonNone if it is due. known
// is false if that depends on earlier periods, which the state does not have, or on an unknown
// status: ActiveAt is false then, so the fire waits for a newer release.
func (s *State) SkipReasonAt(dueMS int64) (reason Reason, known bool) {
	if !s.Status.Known() {
		return ReasonNone, false
	}
	if s.Status == StatusActive {
		return ReasonNone, dueMS >= s.ActiveSinceMS
	}
	if now := s.currentInactivity(); now.Covers(dueMS) {
		return now.Reason(), true
	} else if dueMS < now.FromMS {
		return ReasonNone, false
	}
	return ReasonNone, true
}

// SkipReasonIn returns the reason of the first period that covers an instant, or ReasonNone.
func SkipReasonIn(all []Inactivity, dueMS int64) Reason {
	for _, i := range all {
		if i.Covers(dueMS) {
			return i.Reason()
		}
	}
	return ReasonNone
}
