package executor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/timer"
)

// claimQueue is where the tasks of a topic wait for their claim, which is the narrowest place on the
// way of a flood: apps are served in turn. They wait here and not on the topic, for a broker gives
// what it has in order, and whatever comes behind a flood there waits for the whole of it.
//
// Those that brought the tasks claim for each other: whoever gets a slot claims what is next,
// whosever it is, until its own tasks are answered.
type claimQueue struct {
	slots   chan struct{} // as many as may claim at once
	gauge   prometheus.Gauge
	mu      sync.Mutex
	waiting fairQueue[*task]
}

// task is a fire that asks to be claimed.
type task struct {
	fire      timer.Fire
	published time.Time
	delivery  *delivery
	index     int  // in its delivery
	withdrawn bool // withdrawn while it waited; guarded by claims.mu
	taken     bool // guarded by claims.mu
}

// delivery is a batch of a topic's tasks.
type delivery struct {
	tasks   []task
	errs    []error // nil: all are done
	waiting int     // how many nobody has taken; guarded by claims.mu
	// how many are not answered; guarded by claims.mu, as errs is until done is closed.
	unanswered int
	done       chan struct{} // closed when none is left
}

func newClaimQueue(atOnce int, gauge prometheus.Gauge) *claimQueue {
	return &claimQueue{slots: make(chan struct{}, atOnce), gauge: gauge}
}

// add lets the tasks of a delivery wait.
func (c *claimQueue) add(d *delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.waiting, d.unanswered = len(d.tasks), len(d.tasks)
	if d.unanswered == 0 {
		close(d.done)
	}
	for i := range d.tasks {
		t := &d.tasks[i]
		t.delivery = d
		c.waiting.push(t.fire.AppID, t)
	}
	c.gauge.Add(float64(d.unanswered))
}

// take returns at most so many tasks, the apps in turn. Each must be answered.
func (c *claimQueue) take(limit int) []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*task
	for len(out) < limit && c.waiting.n > 0 {
		if t := c.waiting.pop(); !t.withdrawn {
			t.taken = true
			t.delivery.waiting--
			out = append(out, t)
		}
	}
	c.gauge.Sub(float64(len(out)))
	return out
}

// hasWaiting tells whether any task of a delivery waits to be taken. Who brought one of which none does
// has nothing to claim for.
func (c *claimQueue) hasWaiting(d *delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d.waiting > 0
}

// answer says what became of tasks that were taken: errs has an error (or nil) for each.
func (c *claimQueue) answer(tasks []*task, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range tasks {
		t.delivery.answer(t, errs[i])
	}
}

// withdraw answers those tasks of a delivery with err that nobody has taken.
func (c *claimQueue) withdraw(d *delivery, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range d.tasks {
		if t := &d.tasks[i]; !t.taken && !t.withdrawn {
			t.withdrawn = true // its place in the line is skipped
			d.waiting--
			c.gauge.Dec()
			d.answer(t, err)
		}
	}
}

// answer counts one answer. The lock of the claims is held.
func (d *delivery) answer(t *task, err error) {
	if err != nil {
		d.errs[t.index] = err
	}
	if d.unanswered--; d.unanswered == 0 {
		close(d.done)
	}
}
