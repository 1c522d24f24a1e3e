package limit

import "slices"

// FIFO is a queue in which items leave in the order they came, those of PushFirst before those of
// Push. The zero value is an empty queue. It is not safe for concurrent use.
type FIFO[T any] struct{ first, items line[T] }

// Len returns the number of items.
func (f *FIFO[T]) Len() int { return f.first.len() + f.items.len() }

// LenFirst returns how many of the items are of PushFirst.
func (f *FIFO[T]) LenFirst() int { return f.first.len() }

// Push adds an item as the last.
func (f *FIFO[T]) Push(item T) { f.items.push(item) }

// PushFirst adds an item before those of Push, and after earlier ones of PushFirst.
func (f *FIFO[T]) PushFirst(item T) { f.first.push(item) }

// Pop removes and returns the next item. The queue must not be empty.
func (f *FIFO[T]) Pop() T {
	if f.first.len() > 0 {
		return f.first.pop()
	}
	return f.items.pop()
}

// PopLast removes and returns the last item. The queue must not be empty.
func (f *FIFO[T]) PopLast() T {
	if f.items.len() > 0 {
		return f.items.popLast()
	}
	return f.first.popLast()
}

// Drain removes and returns all items.
func (f *FIFO[T]) Drain() []T {
	all := slices.Concat(f.first.items[f.first.head:], f.items.items[f.items.head:])
	*f = FIFO[T]{}
	return all
}

// line is a slice whose first items have left.
type line[T any] struct {
	items []T
	head  int
}

func (l *line[T]) len() int { return len(l.items) - l.head }

func (l *line[T]) push(item T) {
	if 2*l.head > len(l.items) { // a line that is never empty must not grow
		l.items, l.head = append([]T(nil), l.items[l.head:]...), 0
	}
	l.items = append(l.items, item)
}

func (l *line[T]) pop() T {
	item := l.items[l.head]
	var none T
	l.items[l.head] = none
	if l.head++; l.head == len(l.items) {
		*l = line[T]{} // a burst leaves no memory behind
	}
	return item
}

func (l *line[T]) popLast() T {
	last := len(l.items) - 1
	item := l.items[last]
	var none T
	l.items[last] = none
	if l.items = l.items[:last]; l.head == last {
		*l = line[T]{}
	}
	return item
}
