package clock

import (
	"sync/atomic"
	"time"
)

// Stamp remembers when something happened last, by the monotonic clock: a host's clock that is set
// makes nothing older or younger. The zero value says never. It is safe for concurrent use.
type Stamp struct{ at atomic.Pointer[time.Time] }

// Set says that it happens now.
func (m *Stamp) Set() {
	now := time.Now()
	m.at.Store(&now)
}

// Within tells whether it happened less than d ago.
func (m *Stamp) Within(d time.Duration) bool {
	at := m.at.Load()
	return at != nil && time.Since(*at) < d
}
