package calendar

// Set is calendars that rule together: an instant must be allowed by all of them. An empty set allows everything.
type Set []*Rules

// Allows tells whether every calendar allows an instant (unix seconds).
func (s Set) Allows(unix int64) bool {
	for _, r := range s {
		if !r.Allows(unix) {
			return false
		}
	}
	return true
}

// NextAllowed returns the first instant at or after another that every calendar allows, Never if there is none.
func (s Set) NextAllowed(unix int64) int64 {
	for agreed := 0; agreed < len(s) && unix != Never; {
		agreed = 0
		for _, r := range s {
			at := r.NextAllowed(unix)
			if at == unix {
				agreed++
			}
			unix = at
			if unix == Never {
				break
			}
		}
	}
	return unix
}

// NextExcluded returns the first instant at or after another that a calendar does not allow, Never if there is none.
func (s Set) NextExcluded(unix int64) int64 {
	first := Never
	for _, r := range s {
		first = min(first, r.NextExcluded(unix))
	}
	return first
}

// PrevAllowed returns the last second at or before an instant that every calendar allows, -Never if there is none.
func (s Set) PrevAllowed(unix int64) int64 {
	for agreed := 0; agreed < len(s) && unix != -Never; {
		agreed = 0
		for _, r := range s {
			at := r.PrevAllowed(unix)
			if at == unix {
				agreed++
			}
			unix = at
			if unix == -Never {
				break
			}
		}
	}
	return unix
}

// Why says which calendar and which rule of it exclude an instant; empty if none does.
func (s Set) Why(unix int64) string {
	for _, r := range s {
		if why := r.Why(unix); why != "" {
			return why
		}
	}
	return ""
}
