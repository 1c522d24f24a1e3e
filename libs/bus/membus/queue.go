package membus

import (
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

// delivery is one message of one subscription.
type delivery struct {
	msg        *bus.Message
	failures   int // failed deliveries so far
	generation int // generation of the subscription at acceptance
}

// queue is a ring buffer of deliveries. It grows as needed and shrinks when it is empty.
type queue struct {
	ring  []delivery // its length is a power of two
	head  int
	count int
}

const maxKeptRing = 1024 // largest buffer kept when the queue becomes empty

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

// waiting is a delivery scheduled for later.
type waiting struct {
	at time.Time
	delivery
}

// schedule is a heap of waiting deliveries, earliest first. It implements container/heap.Interface.
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
