package clock

import (
	"sync/atomic"
	"time"
)

// Stamp records when an event last happened, by the monotonic clock. So changes of the host's clock
// do not affect it. The zero value means never. It is safe for concurrent use.
type Stamp struct{ at atomic.Pointer[time.Time] }

// Set records that the event happens now.
func (m *Stamp) Set() {
	now := time.Now()
	m.at.Store(&now)
}

// Within reports whether the event happened less than d ago.
func (m *Stamp) Within(d time.Duration) bool {
	at := m.at.Load()
	return at != nil && time.Since(*at) < d
}
