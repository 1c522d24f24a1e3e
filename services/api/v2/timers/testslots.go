package timers

import (
	"sync"
	"time"
)

// testSlotTime is how long a test call holds its slot at least. It makes the limit of calls at once
// a limit of their rate too.
const testSlotTime = time.Second

// testShare is which part of the slots one app has.
const testShare = 4

// TestSlots limits the test calls of a process: at once, in a second, and for each app. Calls above
// a limit are refused; none waits. Each replica counts for itself.
type TestSlots struct {
	most int

	mu    sync.Mutex
	taken int
	byApp map[string]int // only apps with some
}

// NewTestSlots returns most slots.
func NewTestSlots(most int) *TestSlots {
	return &TestSlots{most: most, byApp: make(map[string]int)}
}

// perApp is how many slots one app may have.
func (t *TestSlots) perApp() int { return max(t.most/testShare, 1) }

// TryAcquire takes a slot for an app, if one is free.
func (t *TestSlots) TryAcquire(app string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken >= t.most || t.byApp[app] >= t.perApp() {
		return false
	}
	t.taken++
	t.byApp[app]++
	return true
}

// Release frees a slot that was taken at an instant, once it was held for testSlotTime.
func (t *TestSlots) Release(app string, taken time.Time) {
	rest := testSlotTime - time.Since(taken)
	if rest <= 0 {
		t.free(app)
		return
	}
	time.AfterFunc(rest, func() { t.free(app) })
}

func (t *TestSlots) free(app string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.byApp[app]--; t.byApp[app] == 0 {
		delete(t.byApp, app)
	}
}
