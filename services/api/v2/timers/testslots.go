package timers

import (
	"time"

	"github.com/carillon-timer/carillon/services/api/requests"
)

// testSlotTime is how long a test call holds its slot at least. It makes the limit of calls at once
// a limit of their rate too.
const testSlotTime = time.Second

// TestSlots limits the test calls of a process: at once, in a second, and for each app. Calls above
// a limit are refused; none waits. Each replica counts for itself.
type TestSlots struct {
	*requests.AppSlots
}

// NewTestSlots returns most slots.
func NewTestSlots(most int) *TestSlots { return &TestSlots{requests.NewAppSlots(most)} }

// Release frees a slot that was taken at an instant, once it was held for testSlotTime.
func (t *TestSlots) Release(app string, taken time.Time) {
	rest := testSlotTime - time.Since(taken)
	if rest <= 0 {
		t.AppSlots.Release(app)
		return
	}
	time.AfterFunc(rest, func() { t.AppSlots.Release(app) })
}
