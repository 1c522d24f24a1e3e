package executor

import (
	"sync"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

const priorities = 3

// queue holds due fires until a worker is free. Priorities are served by weight, so that low still
// progresses; catch-up traffic is low and hardly delays on-time traffic. Within a priority apps
// take turns, so one app's burst does not delay another app's fire.
//
// Fires that wait for app limits are ordered by the limiter and come here with their permit. They
// go first, in the order of their permits. No app has more permits than its share of the workers.
type queue struct {
	mu         sync.Mutex
	ready      sync.Cond
	permitted  fairQueue[*claimedFire]             // fires with a permit, queued as one app
	priorities [priorities]fairQueue[*claimedFire] // indexed by limit.Priority
	picker     *limit.Picker
	idle       int
	closed     bool
	full       func() bool // while it returns true, pop returns no entry
}

func newQueue(full func() bool) *queue {
	q := &queue{full: full, picker: limit.NewPicker(limit.DefaultWeights())}
	q.ready.L = &q.mu
	return q
}

// effectivePriority returns the queue priority of an entry. A fire of the low-priority topic stays
// low here until its first attempt.
func effectivePriority(e *claimedFire) limit.Priority {
	if e.late.Load() || e.low && e.fire.Attempt == 0 {
		return limit.Low
	}
	return priorityOf(e)
}

// priorityOf returns the configured priority of a fire among those of its app.
func priorityOf(e *claimedFire) limit.Priority {
	switch e.fire.PriorityLevel {
	case timer.LevelLow:
		return limit.Low
	case timer.LevelHigh:
		return limit.High
	case timer.LevelNormal:
	}
	return limit.Normal
}

// push adds entries and returns how many of them find no idle worker.
func (q *queue) push(es []*claimedFire) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.priorities[effectivePriority(e)].push(e.fire.AppID, e)
	}
	return q.wakeWorkers(len(es))
}

// pushPermitted adds an entry that has its permit. It returns the same as push.
func (q *queue) pushPermitted(e *claimedFire) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.permitted.push(0, e)
	return q.wakeWorkers(1)
}

// wakeWorkers wakes up to n idle workers. The caller holds the lock.
func (q *queue) wakeWorkers(n int) (short int) {
	for range min(n, q.idle) {
		q.ready.Signal()
	}
	return max(0, q.count()-q.idle)
}

// wake wakes the workers that wait because the recorder was full.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count() > 0 {
		q.ready.Broadcast()
	}
}

// pop waits for an entry, and until the recorder has room for its result. ok is false once the
// queue is closed.
func (q *queue) pop() (e *claimedFire, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.count() == 0 || q.full()) && !q.closed {
		q.idle++
		q.ready.Wait()
		q.idle--
	}
	if q.closed {
		return nil, false
	}
	if q.permitted.n > 0 {
		return q.permitted.pop(), true
	}
	var waiting [priorities]bool
	for i := range q.priorities {
		waiting[i] = q.priorities[i].n > 0
	}
	p, _ := q.picker.Next(waiting)
	return q.priorities[p].pop(), true
}

// close ends every pop and returns the remaining entries.
func (q *queue) close() []*claimedFire {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.permitted.rest()
	q.permitted = fairQueue[*claimedFire]{}
	for i := range q.priorities {
		left = append(left, q.priorities[i].rest()...)
		q.priorities[i] = fairQueue[*claimedFire]{}
	}
	q.closed = true
	q.ready.Broadcast()
	return left
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *queue) count() (n int) {
	n = q.permitted.n
	for i := range q.priorities {
		n += q.priorities[i].n
	}
	return n
}
