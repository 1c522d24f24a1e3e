package requests

import "sync"

// appShare is which part of all slots one app may have.
const appShare = 4

// AppSlots limits concurrent requests at one place, so that one app cannot take all of it.
type AppSlots struct {
	most int

	mu    sync.Mutex
	taken int
	byApp map[string]int // only apps with some
}

// NewAppSlots returns n free slots. One app may have a quarter of them, and at least one.
func NewAppSlots(n int) *AppSlots {
	return &AppSlots{most: n, byApp: make(map[string]int)}
}

// Most is how many slots there are.
func (s *AppSlots) Most() int { return s.most }

// PerApp is how many slots one app may have.
func (s *AppSlots) PerApp() int { return max(s.most/appShare, 1) }

// TryAcquire takes a slot for an app, if one is free.
func (s *AppSlots) TryAcquire(app string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.byApp[app] >= s.PerApp() {
		return false
	}
	s.taken++
	s.byApp[app]++
	return true
}

// Release frees a slot that was taken for an app.
func (s *AppSlots) Release(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byApp[app]--; s.byApp[app] == 0 {
		delete(s.byApp, app)
	}
}
