package executor

import "sync"

// lateTurn is how many present fires are given away for each late one while there are both: catching up moves on, and hardly delays the present.
const lateTurn = 8

// queue holds due fires until a worker is free. What is due now goes before what is caught up with, and in each the apps are served in turn: the
// flood of one does not stand before another's fire.
type queue struct {
	mu      sync.Mutex
	ready   sync.Cond
	present lane
	late    lane
	passed  int // present fires given away since the last late one
	idle    int
	closed  bool
	full    func() bool // no entry is given away while it is
}

func newQueue(full func() bool) *queue {
	q := &queue{full: full}
	q.ready.L = &q.mu
	return q
}

// push adds entries and returns how many of them have no idle worker to take them.
func (q *queue) push(es []*held) (short int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		if e.late.Load() {
			q.late.push(e)
		} else {
			q.present.push(e)
		}
	}
	for range min(len(es), q.idle) {
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

// pop waits for an entry, and until there is room for its result; ok is false once the queue is closed.
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
	if q.late.n > 0 && (q.present.n == 0 || q.passed >= lateTurn) {
		q.passed = 0
		return q.late.pop(), true
	}
	q.passed++
	return q.present.pop(), true
}

// close ends every pop and returns what was left.
func (q *queue) close() []*held {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := append(q.present.rest(), q.late.rest()...)
	q.present, q.late, q.closed = lane{}, lane{}, true
	q.ready.Broadcast()
	return left
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *queue) count() int { return q.present.n + q.late.n }

// lane serves the apps in turn.
type lane struct {
	apps  map[int64]*line
	turns []*line // lines that are not empty; the first is next
	n     int
}

type line struct {
	app   int64
	items []*held
	head  int
}

func (a *lane) push(e *held) {
	l := a.apps[e.fire.AppID]
	if l == nil {
		if a.apps == nil {
			a.apps = make(map[int64]*line)
		}
		l = &line{app: e.fire.AppID}
		a.apps[l.app] = l
		a.turns = append(a.turns, l)
	}
	l.items = append(l.items, e)
	a.n++
}

// pop takes the next of a lane that is not empty.
func (a *lane) pop() *held {
	l := a.turns[0]
	a.turns = a.turns[1:]
	e := l.items[l.head]
	l.items[l.head] = nil
	l.head++
	a.n--
	if l.head == len(l.items) {
		delete(a.apps, l.app)
	} else {
		a.turns = append(a.turns, l)
	}
	return e
}

func (a *lane) rest() []*held {
	var left []*held
	for _, l := range a.turns {
		left = append(left, l.items[l.head:]...)
	}
	return left
}
