package executor

import (
	"context"
	"sync"

	"github.com/carillon-timer/carillon/libs/timer"
)

// calls are the calls in flight that a later fire of their timer may cancel.
type calls struct {
	mu sync.Mutex
	by map[timer.ID]map[timer.FireID]*flight
}

type flight struct {
	cancel    context.CancelFunc
	cancelled bool
}

func newCalls() *calls { return &calls{by: make(map[timer.ID]map[timer.FireID]*flight)} }

// begin returns the context of a call, and what ends it, which tells whether it was cancelled.
func (c *calls) begin(e *held) (ctx context.Context, done func() (cancelled bool)) {
	if e.def.Concurrency.Policy != timer.ConcurrencyCancelPrevious {
		return e.term.Context(), func() bool { return false }
	}
	ctx, cancel := context.WithCancel(e.term.Context())
	f, id := &flight{cancel: cancel}, e.fire.FireID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[id.Timer] == nil {
		c.by[id.Timer] = make(map[timer.FireID]*flight, 1)
	}
	c.by[id.Timer][id] = f
	return ctx, func() bool {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.by[id.Timer], id); len(c.by[id.Timer]) == 0 {
			delete(c.by, id.Timer)
		}
		return f.cancelled
	}
}

// overtaken cancels the calls of a timer whose turn a later fire has. States that were read before
// that say nothing: only a later fire takes a turn away.
func (c *calls) overtaken(s *timer.State) {
	if s.Running.Timer == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.by[s.ID] {
		if timer.CompareFireIDs(s.Running, id) > 0 {
			f.cancelled = true
			f.cancel()
		}
	}
}
