package hold

import (
	"container/heap"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Wheel is the timing wheel: it holds fires until they are due. Each distinct millisecond is a
// slot, and a heap orders the slots. A hundred thousand fires of one instant are one slot, and an
// idle wheel does not run.
type Wheel struct {
	mu    sync.Mutex
	order instants
	slots map[int64][]*inflight.Entry
	n     int
	calls map[int64]int // by app, how many entries wait for a call of it
	wake  chan struct{} // capacity 1: an earlier slot was added
}

type instants []int64

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i] < h[j] }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

//nolint:forcetypeassert // only put pushes
func (h *instants) Push(x any) { *h = append(*h, x.(int64)) }

func (h *instants) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// NewWheel returns an empty wheel.
func NewWheel() *Wheel {
	return &Wheel{
		slots: make(map[int64][]*inflight.Entry),
		calls: make(map[int64]int),
		wake:  make(chan struct{}, 1),
	}
}

// Add adds each entry at the run time of its fire.
func (w *Wheel) Add(es ...*inflight.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range es {
		w.put(e.Fire.RunAtMS, e)
	}
}

// AddAt adds one entry at another time than its run time.
func (w *Wheel) AddAt(atMS int64, e *inflight.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(atMS, e)
}

func (w *Wheel) put(at int64, e *inflight.Entry) {
	if _, ok := w.slots[at]; !ok {
		heap.Push(&w.order, at)
		if w.order[0] == at { // earlier than the time that run sleeps until
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
	w.slots[at] = append(w.slots[at], e)
	w.n++
	if waitsForCall(e) {
		w.calls[e.Fire.AppID]++
	}
}

// pop returns the entries due at nowMS, and the time of the next slot (0: none).
func (w *Wheel) pop(nowMS int64) (due []*inflight.Entry, next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.order) > 0 && w.order[0] <= nowMS {
		at := heap.Pop(&w.order).(int64) //nolint:forcetypeassert // only int64 values are pushed
		if due == nil {
			due = w.slots[at]
		} else {
			due = append(due, w.slots[at]...)
		}
		delete(w.slots, at)
	}
	w.n -= len(due)
	w.left(due)
	if len(w.order) > 0 {
		next = w.order[0]
	}
	return due, next
}

// almostDueMS is how soon an entry is due that Advance leaves as it is.
const almostDueMS = 50

// Advance makes entries of an app due at nowMS that wait for a call of it, at most the given number,
// the soonest first. It returns how many. Of each it calls advanced first, which may change it. Entries
// that are due in a moment are left as they are: they may have been added as due at once, after nowMS
// was read.
func (w *Wheel) Advance(nowMS, app int64, most int, advanced func(e *inflight.Entry)) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[app] == 0 {
		return 0 // most have none, and a full wheel takes long to search
	}
	wanted := func(e *inflight.Entry) bool { return e.Fire.AppID == app && waitsForCall(e) }
	left := w.calls[app]
	var sooner []*inflight.Entry
	for _, at := range slices.Sorted(maps.Keys(w.slots)) {
		if at <= nowMS+almostDueMS {
			for _, e := range w.slots[at] {
				if wanted(e) {
					left--
				}
			}
			continue
		}
		if len(sooner) >= min(most, left) {
			break
		}
		kept := slices.DeleteFunc(w.slots[at], func(e *inflight.Entry) bool {
			if len(sooner) == most || !wanted(e) {
				return false
			}
			sooner = append(sooner, e)
			return true
		})
		w.slots[at] = kept // a slot left empty is popped as any other
	}
	w.n -= len(sooner)
	w.left(sooner)
	for _, e := range sooner {
		advanced(e)
		w.put(nowMS, e)
	}
	return len(sooner)
}

// waitsForCall reports whether an entry only waits until its app may make another call.
func waitsForCall(e *inflight.Entry) bool { return e.Fire.WaitsForCall() && !e.ToGiveBack }

// left counts entries that have left the wheel.
func (w *Wheel) left(es []*inflight.Entry) {
	if len(w.calls) == 0 {
		return
	}
	for _, e := range es {
		if waitsForCall(e) {
			if w.calls[e.Fire.AppID]--; w.calls[e.Fire.AppID] <= 0 {
				delete(w.calls, e.Fire.AppID)
			}
		}
	}
}

// Clear empties the wheel and returns its entries.
func (w *Wheel) Clear() []*inflight.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*inflight.Entry, 0, w.n)
	for _, s := range w.slots {
		all = append(all, s...)
	}
	w.slots, w.order, w.n = make(map[int64][]*inflight.Entry), nil, 0
	clear(w.calls)
	return all
}

// Len returns how many fires wait for their time.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

const (
	// maxWheelSleep bounds the sleep of a wheel with entries, so that it notices a corrected clock.
	maxWheelSleep   = 100 * time.Millisecond
	emptyWheelSleep = 10 * time.Second // any new entry wakes it
)

// Run passes entries to due once readClock reaches their time, until ctx ends. While the clock is
// not steady nothing becomes due.
func (w *Wheel) Run(
	ctx context.Context,
	readClock func() (time.Time, bool),
	due func([]*inflight.Entry),
) {
	timer := time.NewTimer(maxWheelSleep)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait := maxWheelSleep
		if now, steady := readClock(); steady {
			// UnixMilli rounds down, so a fire becomes due within its millisecond or later, never
			// before.
			es, next := w.pop(now.UnixMilli())
			if len(es) > 0 {
				due(es)
				continue
			}
			if wait = emptyWheelSleep; next > 0 {
				wait = min(maxWheelSleep, time.UnixMilli(next).Sub(now))
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}
