package executor

// fairQueue gives out items of many apps, an app's in the order in which they came, and the apps in
// turn: the flood of one does not stand before another's.
type fairQueue[T any] struct {
	apps  map[int64]*appQueue[T]
	order []*appQueue[T] // lines that are not empty; the first is next
	n     int
}

type appQueue[T any] struct {
	app   int64
	items []T
	head  int
}

func (a *fairQueue[T]) push(app int64, item T) {
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

// pop takes the next; there is one.
func (a *fairQueue[T]) pop() T {
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

// rest returns all that is there.
func (a *fairQueue[T]) rest() []T {
	var left []T
	for _, l := range a.order {
		left = append(left, l.items[l.head:]...)
	}
	return left
}
