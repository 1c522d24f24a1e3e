package timer

// Inactivity is a stretch of time in which a timer was not active: from its first instant until
// just before its end. What is due within it is not called, whenever somebody looks at it.
type Inactivity struct {
	FromMS  int64  // unix ms, within
	UntilMS int64  // unix ms, not within; NeverMS while the end is not known
	Status  Status // StatusPaused or StatusInactive
}

// Covers tells whether an instant (unix ms) lies within the stretch.
func (i Inactivity) Covers(dueMS int64) bool { return i.FromMS <= dueMS && dueMS < i.UntilMS }

// Reason returns why a fire that is due within the stretch is skipped.
func (i Inactivity) Reason() Reason {
	if i.Status == StatusPaused {
		return ReasonPaused
	}
	return ReasonInactive
}

// DeferredMS is the run of a fire that waits for its timer to be active again, unless the end of
// the pause is known. It is the last minute that a slice can have, and no slice is ever made of it.
const DeferredMS int64 = (1<<31 - 1) * MinuteMS

// ActiveAt tells whether the timer is active at an instant (unix ms), which is not before the
// state was read. A pause with an end is over at that instant, before anybody has noticed it.
func (s *State) ActiveAt(nowMS int64) bool {
	return s.Status == StatusActive ||
		s.Status == StatusPaused && s.PausedUntilMS > 0 && s.PausedUntilMS <= nowMS
}

// ActiveFromMS returns since when the timer is active, or will be as far as is known (unix ms).
// NeverMS means that it is not active and has no known end of that.
func (s *State) ActiveFromMS() int64 {
	if s.Status == StatusActive {
		return s.ActiveSinceMS
	}
	return s.currentInactivity().UntilMS
}

// currentInactivity returns the stretch in which the timer is not active; only for one that is not.
func (s *State) currentInactivity() Inactivity {
	i := Inactivity{FromMS: s.InactiveSinceMS, UntilMS: NeverMS, Status: s.Status}
	if s.Status == StatusPaused && s.PausedUntilMS > 0 {
		i.UntilMS = max(s.PausedUntilMS, i.FromMS)
	}
	return i
}

// SkipReasonAt returns the reason for which an instant of the schedule is not due, ReasonNone if it is.
// known is false where only earlier stretches, which the state does not have, can tell.
func (s *State) SkipReasonAt(dueMS int64) (reason Reason, known bool) {
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

// SkipReasonIn returns the reason for which one of the stretches covers an instant, ReasonNone if
// none does.
func SkipReasonIn(all []Inactivity, dueMS int64) Reason {
	for _, i := range all {
		if i.Covers(dueMS) {
			return i.Reason()
		}
	}
	return ReasonNone
}
