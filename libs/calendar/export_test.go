package calendar

// Steps returns how many days and stretches a search for the next allowed instant visits. It is 0
// if the answer is cached.
func (s *Set) Steps(unix int64) int {
	steps := 0
	if !s.excludedCache.Load().has(unix) {
		s.nextAllowed(unix, &steps)
	}
	return steps
}

// StepsBack is like Steps for the previous allowed instant.
func (s *Set) StepsBack(unix int64) int {
	steps := 0
	if !s.excludedCache.Load().has(unix) {
		s.prevAllowed(unix, &steps)
	}
	return steps
}

// Weeks returns for how many different weeks the search has computed the common times.
func (q *Search) Weeks() int { return len(q.known) }

// Prev is Next backwards.
func (q *Search) Prev(unix int64) int64 {
	steps := 0
	return q.prev(unix, &steps)
}
