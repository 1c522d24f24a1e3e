package executor

import (
	"sync"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

const priorities = 3

// queue holds due fires until a worker is free. Priorities take turns by weight, so that low still
// moves, and catching up hardly delays the present, for it is low; in each the apps are served in
// turn: the flood of one does not stand before another's fire. It orders what waits for a worker;
// what waits for the limits of its app is ordered there, and comes here with its permit: it goes
// first, in the order of the permits, of which no app has more than its share of the workers.
type queue struct {
	mu         sync.Mutex
	ready      sync.Cond
	permitted  fairQueue[*claimedFire]             // those with a permit, all as of one app
	priorities [priorities]fairQueue[*claimedFire] // by limit.Priority
	picker     *limit.Picker
	idle       int
	closed     bool
	full       func() bool // no entry is given away while it is
}

func newQueue(full func() bool) *queue {
	q := &queue{full: full, picker: limit.NewPicker(limit.DefaultWeights())}
	q.ready.L = &q.mu
	return q
}

// effectivePriority returns the priority of an entry: what came by the low-priority topic gives way here as
// well, until it has been called once.
func effectivePriority(e *claimedFire) limit.Priority {
	if e.late.Load() || e.low && e.fire.Attempt == 0 {
		return limit.Low
	}
	return priorityOf(e)
}

// priorityOf returns which fires of its app one goes before.
func priorityOf(e *claimedFire) limit.Priority {
	switch e.fire.PriorityLevel {
	case timer.LevelLow:
		return limit.Low
	case timer.LevelHigh:
		return limit.High
	default:
		return limit.Normal
	}
}

// push adds entries and returns how many of them have no idle worker to take them.
func (q *queue) push(es []*claimedFire) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.priorities[effectivePriority(e)].push(e.fire.AppID, e)
	}
	return q.wakeWorkers(len(es))
}

// pushPermitted adds an entry with its permit, and returns as push does.
func (q *queue) pushPermitted(e *claimedFire) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.permitted.push(0, e)
	return q.wakeWorkers(1)
}

// wakeWorkers wakes workers for so many. The lock is held.
func (q *queue) wakeWorkers(n int) (short int) {
	for range min(n, q.idle) {
		q.ready.Signal()
	}
	return max(0, q.count()-q.idle)
}

// wake lets those look again who wait because it was full.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count() > 0 {
		q.ready.Broadcast()
	}
}

// pop waits for an entry, and until there is room for its result; ok is false once the queue is
// closed.
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

// close ends every pop and returns what was left.
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
