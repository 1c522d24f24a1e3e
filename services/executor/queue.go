package executor

import "sync"

// queue holds due fires until a worker is free, and serves the apps in turn: the flood of one does not stand before another's fire.
type queue struct {
	mu     sync.Mutex
	ready  sync.Cond
	apps   map[int64]*line
	turns  []*line // lines that are not empty; the first is next
	n      int
	idle   int
	closed bool
	full   func() bool // no entry is given away while it is
}

type line struct {
	app   int64
	items []*held
	head  int
}

func newQueue(full func() bool) *queue {
	q := &queue{apps: make(map[int64]*line), full: full}
	q.ready.L = &q.mu
	return q
}

// push adds entries and returns how many of them have no idle worker to take them.
func (q *queue) push(es []*held) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		l := q.apps[e.fire.AppID]
		if l == nil {
			l = &line{app: e.fire.AppID}
			q.apps[l.app] = l
			q.turns = append(q.turns, l)
		}
		l.items = append(l.items, e)
	}
	q.n += len(es)
	for range min(len(es), q.idle) {
		q.ready.Signal()
	}
	return max(0, q.n-q.idle)
}

// wake lets those look again who wait because it was full.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n > 0 {
		q.ready.Broadcast()
	}
}

// pop waits for an entry, and until there is room for its result; ok is false once the queue is closed.
func (q *queue) pop() (e *held, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.n == 0 || q.full()) && !q.closed {
		q.idle++
		q.ready.Wait()
		q.idle--
	}
	if q.closed {
		return nil, false
	}
	l := q.turns[0]
	q.turns = q.turns[1:]
	e, l.items[l.head] = l.items[l.head], nil
	l.head++
	q.n--
	if l.head == len(l.items) {
		delete(q.apps, l.app)
	} else {
		q.turns = append(q.turns, l)
	}
	return e, true
}

// close ends every pop and returns what was left.
func (q *queue) close() []*held {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []*held
	for _, l := range q.turns {
		left = append(left, l.items[l.head:]...)
	}
	q.turns, q.apps, q.n, q.closed = nil, make(map[int64]*line), 0, true
	q.ready.Broadcast()
	return left
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
