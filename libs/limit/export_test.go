package limit

// Known returns how many apps the limiter has a state of.
func (l *Limiter) Known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.apps)
}
