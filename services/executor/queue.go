package executor

import (
	"sync"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

const lanes = 3

// queue holds due fires until a worker is free. Priorities take turns by weight, so that low still
// moves, and catching up hardly delays the present, for it is low; in each the apps are served in
// turn: the flood of one does not stand before another's fire. It orders what waits for a worker;
// what waits for the limits of its app is ordered there, and comes here with its permit: it goes
// first, in the order of the permits, of which no app has more than its share of the workers.
type queue struct {
	mu      sync.Mutex
	ready   sync.Cond
	granted turns[*held]        // those with a permit, all as of one app
	lanes   [lanes]turns[*held] // by limit.Priority
	picker  *limit.Picker
	idle    int
	closed  bool
	full    func() bool // no entry is given away while it is
}

func newQueue(full func() bool) *queue {
	q := &queue{full: full, picker: limit.NewPicker(limit.DefaultWeights())}
	q.ready.L = &q.mu
	return q
}

// laneOf returns the priority of an entry: what came by the low-priority topic gives way here as
// well, until it has been called once.
func laneOf(e *held) limit.Priority {
	if e.late.Load() || e.low && e.fire.Attempt == 0 {
		return limit.Low
	}
	return priorityOf(e)
}

// priorityOf returns which fires of its app one goes before.
func priorityOf(e *held) limit.Priority {
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
func (q *queue) push(es []*held) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.lanes[laneOf(e)].push(e.fire.AppID, e)
	}
	return q.pushed(len(es))
}

// pushGranted adds an entry with its permit, and returns as push does.
func (q *queue) pushGranted(e *held) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.granted.push(0, e)
	return q.pushed(1)
}

// pushed wakes workers for so many. The lock is held.
func (q *queue) pushed(n int) (short int) {
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
func (q *queue) pop() (e *held, ok bool) {
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
	if q.granted.n > 0 {
		return q.granted.pop(), true
	}
	var waiting [lanes]bool
	for i := range q.lanes {
		waiting[i] = q.lanes[i].n > 0
	}
	p, _ := q.picker.Next(waiting)
	return q.lanes[p].pop(), true
}

// close ends every pop and returns what was left.
func (q *queue) close() []*held {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.granted.rest()
	q.granted = turns[*held]{}
	for i := range q.lanes {
		left = append(left, q.lanes[i].rest()...)
		q.lanes[i] = turns[*held]{}
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
	n = q.granted.n
	for i := range q.lanes {
		n += q.lanes[i].n
	}
	return n
}
