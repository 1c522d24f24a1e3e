package hold

import "github.com/carillon-timer/carillon/libs/limit"

// Queue serves priorities by weight, so that low still progresses. Within a priority apps take
// turns. The zero value is an empty queue. It is not safe for concurrent use.
type Queue[T any] struct {
	priorities [limit.Priorities]FairQueue[T]
	picker     limit.Picker
}

// Push adds an item of an app.
func (q *Queue[T]) Push(p limit.Priority, app int64, item T) { q.priorities[p].Push(app, item) }

// PushFirst adds an item of an app before those of Push.
func (q *Queue[T]) PushFirst(p limit.Priority, app int64, item T) {
	q.priorities[p].PushFirst(app, item)
}

// Len returns the number of items.
func (q *Queue[T]) Len() (n int) {
	for i := range q.priorities {
		n += q.priorities[i].Len()
	}
	return n
}

// Pop removes and returns the next item. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var waiting [limit.Priorities]bool
	for i := range q.priorities {
		waiting[i] = q.priorities[i].Len() > 0
	}
	p, _ := q.picker.Next(waiting)
	return q.priorities[p].Pop()
}

// rest removes and returns the remaining items.
func (q *Queue[T]) rest() (left []T) {
	for i := range q.priorities {
		left = append(left, q.priorities[i].rest()...)
	}
	return left
}

// FairQueue is a queue over many apps. Apps take turns, and an app's items are first in, first out.
// So one app's burst does not delay another app's items.
type FairQueue[T any] struct {
	apps  map[int64]*appQueue[T]
	order []*appQueue[T] // the non-empty queues; the first is served next
	n     int
}

type appQueue[T any] struct {
	limit.FIFO[T]

	app int64
}

// Push adds an item of an app.
func (a *FairQueue[T]) Push(app int64, item T) { a.of(app).Push(item) }

// PushFirst adds an item of an app before those of Push, and after earlier ones of PushFirst.
func (a *FairQueue[T]) PushFirst(app int64, item T) { a.of(app).PushFirst(item) }

// of returns the queue of an app, to which the caller adds one item.
func (a *FairQueue[T]) of(app int64) *appQueue[T] {
	l := a.apps[app]
	if l == nil {
		if a.apps == nil {
			a.apps = make(map[int64]*appQueue[T])
		}
		l = &appQueue[T]{app: app}
		a.apps[app] = l
		a.order = append(a.order, l)
	}
	a.n++
	return l
}

// Len returns the number of items.
func (a *FairQueue[T]) Len() int { return a.n }

// Pop removes and returns the next item. The queue must not be empty.
func (a *FairQueue[T]) Pop() T {
	l := a.order[0]
	a.order = a.order[1:]
	item := l.Pop()
	a.n--
	if l.Len() == 0 {
		delete(a.apps, l.app)
	} else {
		a.order = append(a.order, l)
	}
	return item
}

// rest removes and returns the remaining items.
func (a *FairQueue[T]) rest() []T {
	var left []T
	for _, l := range a.order {
		left = append(left, l.Drain()...)
	}
	*a = FairQueue[T]{}
	return left
}
