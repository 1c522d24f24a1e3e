package testenv

import "sync"

// Concurrency counts the calls that run now and the most that ever ran at once. Its zero value is
// ready to use.
type Concurrency struct {
	mu        sync.Mutex
	now, most int
}

// Begin counts a call that starts.
func (c *Concurrency) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.most = max(c.most, c.now)
}

// End counts a call that has ended.
func (c *Concurrency) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// Now returns the number of calls that run.
func (c *Concurrency) Now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Most returns the most calls that ran at once.
func (c *Concurrency) Most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}
