package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Active is the attempts in flight that a later fire of the same timer may cancel. It is safe for
// concurrent use.
type Active struct {
	mu      sync.Mutex
	byTimer map[timer.ID]map[timer.FireID]*activeAttempt
}

type activeAttempt struct {
	cancel    context.CancelFunc
	cancelled bool
	began     time.Time // it had the slot before
}

// NewActive returns a set without attempts.
func NewActive() *Active {
	return &Active{byTimer: make(map[timer.ID]map[timer.FireID]*activeAttempt)}
}

// Begin returns the context of an attempt, and done, which ends it and reports whether it was
// cancelled.
func (c *Active) Begin(e *inflight.Entry) (ctx context.Context, done func() (cancelled bool)) {
	if e.Def.Concurrency.Policy != timer.ConcurrencyCancelPrevious {
		return e.Epoch.Context(), func() bool { return false }
	}
	ctx, cancel := context.WithCancel(e.Epoch.Context())
	f, id := &activeAttempt{cancel: cancel, began: time.Now()}, e.Fire.FireID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTimer[id.Timer] == nil {
		c.byTimer[id.Timer] = make(map[timer.FireID]*activeAttempt, 1)
	}
	c.byTimer[id.Timer][id] = f
	return ctx, func() bool {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.byTimer[id.Timer], id); len(c.byTimer[id.Timer]) == 0 {
			delete(c.byTimer, id.Timer)
		}
		return f.cancelled
	}
}

// CancelSuperseded cancels the attempts of a timer whose concurrency slot a later fire has taken. That
// one may have ended since, within less than a poll. An attempt had the slot before it began, so a
// state that was read after that tells who has taken it. One that was read earlier may tell of a fire
// that ended before this one got the slot, and is left to the next poll. A state that names a fire
// that is due earlier is left too: a failover may have lost that this one got the slot.
func (c *Active) CancelSuperseded(s *timer.State, sent time.Time) {
	if s.LastRunning.Timer == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.byTimer[s.ID] {
		if f.began.Before(sent) && timer.CompareFireIDs(s.LastRunning, id) > 0 {
			f.cancelled = true
			f.cancel()
		}
	}
}
