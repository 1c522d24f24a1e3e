package executor

import (
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// recheckAfter is when a fire is decided again whose timer could not be read.
const recheckAfter = 500 * time.Millisecond

// enqueueDue queues the fires that the wheel has released, and starts workers for them.
func (s *Service) enqueueDue(es []*inflight.Entry) {
	now := s.opts.Clock.Now().UnixMilli()
	for _, e := range es {
		e.WaitFor(timer.WaitWorker, now)
	}
	s.startWorkers(s.queue.Push(es))
}

// startWorkers starts workers for entries that find no idle one, up to MaxCalls in all, and none
// once the drain waits for them.
func (s *Service) startWorkers(short int) {
	if short == 0 {
		return
	}
	s.workersMu.Lock()
	defer s.workersMu.Unlock()
	for range short {
		if s.workerCount == s.opts.MaxCalls || s.draining {
			return
		}
		s.workerCount++
		s.workers.Go(s.runWorker)
	}
}

// runWorker calls fires until the queue is closed. Workers are never stopped earlier, so there are
// as many as were ever busy at once. A worker waits for nothing but the calls that it makes.
func (s *Service) runWorker() {
	for {
		d, ok := s.queue.Pop()
		if !ok {
			return
		}
		c := d.Known
		if c == nil {
			c = &candidate{entry: d.Entry, granted: s.deliverer.TakePermit(d.Entry)}
		}
		s.attempt(c)
	}
}

// attempt decides about a due fire, calls it, and passes the result on. If the decision needs an
// answer, the fire comes back with it.
func (s *Service) attempt(c *candidate) {
	e := c.entry
	switch s.evaluate(c) {
	case waits:
		return
	case over:
		s.settle(c)
		return
	case goes:
	}
	s.inflight.CallStarted(e)
	s.deliverer.Deliver(e, &delivery.Timer{
		State: c.view.State,
		AsOf:  c.view.asOf,
		App:   c.owner,
	}, c.granted)
}

// recheckLater returns a fire to the wheel for a moment, or drops it if its session has expired.
func (s *Service) recheckLater(e *inflight.Entry) {
	s.recheckAt(s.opts.Clock.Now().Add(recheckAfter).UnixMilli(), e)
}

func (s *Service) recheckAt(atMS int64, e *inflight.Entry) {
	if e.Epoch.Context().Err() != nil {
		s.inflight.Remove(e)
		return
	}
	e.WaitFor(timer.WaitStore, s.opts.Clock.Now().UnixMilli())
	s.wheel.AddAt(atMS, e)
}
