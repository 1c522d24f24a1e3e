package hold

import (
	"sync"

	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Due is a due fire, with what is known of it for its decision: the zero value until it is asked.
type Due[K any] struct {
	Entry *inflight.Entry
	Known K
}

// Ready holds due fires until a worker is free. Priorities are served by weight; catch-up traffic
// is low and hardly delays on-time traffic. Within a priority apps take turns, so one app's burst
// does not delay another app's fire.
//
// Fires that wait for app limits are ordered by the limiter and come here with their permit. They
// go first, in the order of their permits. No app has more permits than its share of the workers.
type Ready[K any] struct {
	mu        sync.Mutex
	ready     sync.Cond
	permitted FairQueue[Due[K]] // fires with a permit, queued as one app
	queue     Queue[Due[K]]
	idle      int
	closed    bool
	full      func() bool // while it returns true, pop returns no entry
}

// NewReady returns an empty queue. While full returns true, Pop returns no entry.
func NewReady[K any](full func() bool) *Ready[K] {
	q := &Ready[K]{full: full}
	q.ready.L = &q.mu
	return q
}

// Push adds entries and returns how many of them find no idle worker.
func (q *Ready[K]) Push(es []*inflight.Entry) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.queue.Push(e.QueuePriority(), e.Fire.AppID, Due[K]{Entry: e})
	}
	return q.wakeWorkers(len(es))
}

// PushPermitted adds a fire that has its permit. It returns the same as Push.
func (q *Ready[K]) PushPermitted(d Due[K]) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.permitted.Push(0, d)
	return q.wakeWorkers(1)
}

// PushDecided adds a fire that is decided and has had its turn: it goes before those of its app. ok
// is false once the queue is closed.
func (q *Ready[K]) PushDecided(d Due[K], permitted bool) (short int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return 0, false
	case permitted:
		q.permitted.Push(0, d)
	default:
		q.queue.PushFirst(d.Entry.QueuePriority(), d.Entry.Fire.AppID, d)
	}
	return q.wakeWorkers(1), true
}

// wakeWorkers wakes up to n idle workers. The caller holds the lock.
func (q *Ready[K]) wakeWorkers(n int) (short int) {
	for range min(n, q.idle) {
		q.ready.Signal()
	}
	return max(0, q.count()-q.idle)
}

// Wake wakes the workers that wait because the recorder was full.
func (q *Ready[K]) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count() > 0 {
		q.ready.Broadcast()
	}
}

// Pop waits for a fire, and until the recorder has room for its result. ok is false once the queue
// is closed.
func (q *Ready[K]) Pop() (d Due[K], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.count() == 0 || q.full()) && !q.closed {
		q.idle++
		q.ready.Wait()
		q.idle--
	}
	if q.closed {
		return d, false
	}
	if q.permitted.Len() > 0 {
		return q.permitted.Pop(), true
	}
	return q.queue.Pop(), true
}

// Close ends every pop and returns the remaining fires.
func (q *Ready[K]) Close() []Due[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := append(q.permitted.rest(), q.queue.rest()...)
	q.closed = true
	q.ready.Broadcast()
	return left
}

// Len returns how many fires wait for a worker.
func (q *Ready[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *Ready[K]) count() int { return q.permitted.Len() + q.queue.Len() }
