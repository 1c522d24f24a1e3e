package intake

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// claimQueue holds the received tasks of a topic until their claim, the bottleneck of a burst; apps
// take turns. The tasks wait here because a broker delivers in order: on the topic everything
// behind a burst would wait for all of it.
//
// Receiving goroutines claim for each other. Each one that holds a slot claims the next tasks, of
// any batch, until its own are answered.
type claimQueue struct {
	slots   chan struct{} // capacity: concurrent claims
	gauge   prometheus.Gauge
	mu      sync.Mutex
	waiting hold.FairQueue[*task]
}

// task is a fire to be claimed.
type task struct {
	fire      timer.Fire
	path      timer.Path
	published time.Time
	batch     *taskBatch
	index     int  // position in its batch
	withdrawn bool // removed while queued; guarded by claimQueue.mu
	taken     bool // guarded by claimQueue.mu
}

// arrival returns the fire with how its task came.
func (t *task) arrival() inflight.Arrival {
	a := inflight.Arrival{Fire: t.fire, Hops: timer.Hops{Path: t.path}}
	if !t.published.IsZero() {
		a.Hops.DispatchedMS = t.published.UnixMilli()
	}
	return a
}

// taskBatch is one received batch of tasks.
type taskBatch struct {
	tasks   []task
	errs    []error // by index; nil: the task is done
	waiting int     // tasks that are still queued; guarded by claimQueue.mu
	// unanswered counts the tasks without an answer. claimQueue.mu guards it, and errs until done
	// is closed.
	unanswered int
	done       chan struct{} // closed when unanswered is 0
}

func newClaimQueue(atOnce int, gauge prometheus.Gauge) *claimQueue {
	return &claimQueue{slots: make(chan struct{}, atOnce), gauge: gauge}
}

// add queues the tasks of a batch.
func (c *claimQueue) add(d *taskBatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.waiting, d.unanswered = len(d.tasks), len(d.tasks)
	if d.unanswered == 0 {
		close(d.done)
	}
	for i := range d.tasks {
		t := &d.tasks[i]
		t.batch = d
		c.waiting.Push(t.fire.AppID, t)
	}
	c.gauge.Add(float64(d.unanswered))
}

// take returns at most limit tasks, apps in turn. The caller must answer each.
func (c *claimQueue) take(limit int) []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*task
	for len(out) < limit && c.waiting.Len() > 0 {
		if t := c.waiting.Pop(); !t.withdrawn {
			t.taken = true
			t.batch.waiting--
			out = append(out, t)
		}
	}
	c.gauge.Sub(float64(len(out)))
	return out
}

// hasWaiting reports whether a task of the batch is still queued. A goroutine whose batch has
// none need not claim.
func (c *claimQueue) hasWaiting(d *taskBatch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d.waiting > 0
}

// answer reports the results of taken tasks: errs has an error or nil for each.
func (c *claimQueue) answer(tasks []*task, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range tasks {
		t.batch.answer(t, errs[i])
	}
}

// withdraw answers the queued tasks of a batch with err.
func (c *claimQueue) withdraw(d *taskBatch, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range d.tasks {
		if t := &d.tasks[i]; !t.taken && !t.withdrawn {
			t.withdrawn = true // take skips it
			d.waiting--
			c.gauge.Dec()
			d.answer(t, err)
		}
	}
}

// answer records one answer. The caller holds claimQueue.mu.
func (d *taskBatch) answer(t *task, err error) {
	if err != nil {
		d.errs[t.index] = err
	}
	if d.unanswered--; d.unanswered == 0 {
		close(d.done)
	}
}
