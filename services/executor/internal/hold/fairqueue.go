package hold

// FairQueue is a queue over many apps. Apps take turns, and an app's items are first in, first out.
// So one app's burst does not delay another app's items.
type FairQueue[T any] struct {
	apps  map[int64]*appQueue[T]
	order []*appQueue[T] // the non-empty queues; the first is served next
	n     int
}

type appQueue[T any] struct {
	app   int64
	items []T
	head  int
}

// Push adds an item of an app.
func (a *FairQueue[T]) Push(app int64, item T) {
	l := a.apps[app]
	if l == nil {
		if a.apps == nil {
			a.apps = make(map[int64]*appQueue[T])
		}
		l = &appQueue[T]{app: app}
		a.apps[app] = l
		a.order = append(a.order, l)
	}
	l.items = append(l.items, item)
	a.n++
}

// Len returns the number of items.
func (a *FairQueue[T]) Len() int { return a.n }

// Pop removes and returns the next item. The queue must not be empty.
func (a *FairQueue[T]) Pop() T {
	l := a.order[0]
	a.order = a.order[1:]
	item := l.items[l.head]
	var none T
	l.items[l.head] = none
	l.head++
	a.n--
	if l.head == len(l.items) {
		delete(a.apps, l.app)
	} else {
		a.order = append(a.order, l)
	}
	return item
}

// rest returns the remaining items.
func (a *FairQueue[T]) rest() []T {
	var left []T
	for _, l := range a.order {
		left = append(left, l.items[l.head:]...)
	}
	return left
}
