package membus

import (
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

// delivery is a message on its way through one subscription.
type delivery struct {
	msg        *bus.Message
	failures   int // how often a handler gave it back
	generation int // of its subscription, when it was accepted
}

// queue is a ring of deliveries that grows as needed and shrinks when it is empty.
type queue struct {
	ring  []delivery // its length is a power of two
	head  int
	count int
}

const maxKeptRing = 1024 // a ring no longer than this is kept when the queue empties

func (q *queue) at(i int) *delivery { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) pushBack(d delivery) {
	q.grow()
	q.count++
	*q.at(q.count - 1) = d
}

func (q *queue) pushFront(d delivery) {
	q.grow()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.count++
	*q.at(0) = d
}

func (q *queue) popFront() delivery {
	d := *q.at(0)
	*q.at(0) = delivery{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	if q.count == 0 && len(q.ring) > maxKeptRing {
		q.ring, q.head = nil, 0
	}
	return d
}

func (q *queue) grow() {
	if q.count < len(q.ring) {
		return
	}
	ring := make([]delivery, max(16, 2*len(q.ring)))
	for i := range q.count {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

// waiting is a delivery for later.
type waiting struct {
	at time.Time
	delivery
}

// schedule is a heap of what waits, the earliest first. It implements container/heap's interface.
type schedule []waiting

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)        { *s = append(*s, x.(waiting)) }

func (s *schedule) Pop() any {
	old := *s
	w := old[len(old)-1]
	old[len(old)-1] = waiting{}
	*s = old[:len(old)-1]
	return w
}
