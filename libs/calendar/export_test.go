package calendar

// Steps returns how many days and stretches a search for the next allowed instant looks at, 0 where
// the answer is remembered.
func (s *Set) Steps(unix int64) int {
	steps := 0
	if !s.excludedCache.Load().has(unix) {
		s.nextAllowed(unix, &steps)
	}
	return steps
}

// StepsBack is Steps of the last allowed instant before.
func (s *Set) StepsBack(unix int64) int {
	steps := 0
	if !s.excludedCache.Load().has(unix) {
		s.prevAllowed(unix, &steps)
	}
	return steps
}
