package hold

import (
	"sync"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const priorities = 3

// Ready holds due fires until a worker is free. Priorities are served by weight, so that low still
// progresses; catch-up traffic is low and hardly delays on-time traffic. Within a priority apps
// take turns, so one app's burst does not delay another app's fire.
//
// Fires that wait for app limits are ordered by the limiter and come here with their permit. They
// go first, in the order of their permits. No app has more permits than its share of the workers.
type Ready struct {
	mu         sync.Mutex
	ready      sync.Cond
	permitted  FairQueue[*inflight.Entry]             // fires with a permit, queued as one app
	priorities [priorities]FairQueue[*inflight.Entry] // indexed by limit.Priority
	picker     *limit.Picker
	idle       int
	closed     bool
	full       func() bool // while it returns true, pop returns no entry
}

// NewReady returns an empty queue. While full returns true, Pop returns no entry.
func NewReady(full func() bool) *Ready {
	q := &Ready{full: full, picker: limit.NewPicker(limit.DefaultWeights())}
	q.ready.L = &q.mu
	return q
}

// Push adds entries and returns how many of them find no idle worker.
func (q *Ready) Push(es []*inflight.Entry) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.priorities[e.QueuePriority()].Push(e.Fire.AppID, e)
	}
	return q.wakeWorkers(len(es))
}

// PushPermitted adds an entry that has its permit. It returns the same as push.
func (q *Ready) PushPermitted(e *inflight.Entry) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.permitted.Push(0, e)
	return q.wakeWorkers(1)
}

// wakeWorkers wakes up to n idle workers. The caller holds the lock.
func (q *Ready) wakeWorkers(n int) (short int) {
	for range min(n, q.idle) {
		q.ready.Signal()
	}
	return max(0, q.count()-q.idle)
}

// Wake wakes the workers that wait because the recorder was full.
func (q *Ready) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count() > 0 {
		q.ready.Broadcast()
	}
}

// Pop waits for an entry, and until the recorder has room for its result. ok is false once the
// queue is closed.
func (q *Ready) Pop() (e *inflight.Entry, ok bool) {
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
	if q.permitted.Len() > 0 {
		return q.permitted.Pop(), true
	}
	var waiting [priorities]bool
	for i := range q.priorities {
		waiting[i] = q.priorities[i].Len() > 0
	}
	p, _ := q.picker.Next(waiting)
	return q.priorities[p].Pop(), true
}

// Close ends every pop and returns the remaining entries.
func (q *Ready) Close() []*inflight.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.permitted.rest()
	q.permitted = FairQueue[*inflight.Entry]{}
	for i := range q.priorities {
		left = append(left, q.priorities[i].rest()...)
		q.priorities[i] = FairQueue[*inflight.Entry]{}
	}
	q.closed = true
	q.ready.Broadcast()
	return left
}

// Len returns how many fires wait for a worker.
func (q *Ready) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *Ready) count() (n int) {
	n = q.permitted.Len()
	for i := range q.priorities {
		n += q.priorities[i].Len()
	}
	return n
}
