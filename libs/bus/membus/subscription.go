package membus

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

// subscription holds the messages that its consumers divide. The lock of its topic guards
// everything.
type subscription struct {
	topic      *topic
	name       string
	temporary  bool // belongs to a broadcast; removed with its consumer
	ready      queue
	later      schedule
	pending    int // ready, scheduled, and being handled
	consumers  []*consumer
	next       int // index of the next consumer to serve
	generation int // number of purges: deliveries of earlier generations are dropped

	timer  *time.Timer // fires for the head of later; nil if not set
	wakeAt time.Time   // when it fires
	timers sync.WaitGroup
}

// accept adds a published message, subject to the faults.
func (s *subscription) accept(m *bus.Message, f *Faults) {
	rng := s.topic.rng
	for range f.copies(rng) {
		s.pending++
		d := delivery{msg: m, generation: s.generation}
		if wait := f.delay(rng); wait > 0 {
			heap.Push(&s.later, waiting{at: time.Now().Add(wait), delivery: d})
			continue
		}
		s.ready.pushBack(d)
		if chance(rng, f.Reorder) {
			a, b := s.ready.at(s.ready.count-1), s.ready.at(rng.IntN(s.ready.count))
			*a, *b = *b, *a
		}
	}
}

// dispatch assigns ready messages to idle workers. Consumers with room are served in turn and get
// even shares. Within a consumer, the batch of one worker is filled before that of the next.
func (s *subscription) dispatch() {
	if s.topic.broker.paused.Load() {
		return
	}
	free := 0
	for _, c := range s.consumers {
		if c.room() {
			free++
		}
	}
	if free == 0 || s.ready.count == 0 {
		return
	}
	share := (s.ready.count + free - 1) / free
	for s.ready.count > 0 {
		c := s.nextConsumer()
		if c == nil {
			return
		}
		w := c.next()
		first := len(w.batch) == 0
		for range min(share, s.ready.count, c.spec.MaxBatch-len(w.batch)) {
			w.batch = append(w.batch, s.ready.popFront())
		}
		full := len(w.batch) == c.spec.MaxBatch
		if full {
			c.idle = c.idle[1:]
		}
		if first || full {
			select {
			case w.wake <- struct{}{}:
			default: // already signalled
			}
		}
	}
}

// nextConsumer returns the next consumer that has room, or nil.
func (s *subscription) nextConsumer() *consumer {
	for range s.consumers {
		c := s.consumers[s.next%len(s.consumers)]
		s.next = (s.next + 1) % len(s.consumers)
		if c.room() {
			return c
		}
	}
	return nil
}

// requeue puts unhandled messages back in front of the ready queue, unless they were purged
// meanwhile.
func (s *subscription) requeue(batch []delivery) {
	for _, d := range slices.Backward(batch) {
		if d.generation != s.generation {
			s.pending--
			s.topic.wakePublishers()
			continue
		}
		s.ready.pushFront(d)
	}
}

// purge drops all messages. Messages being handled are dropped when their result arrives.
func (s *subscription) purge() {
	s.generation++
	s.pending -= s.ready.count + len(s.later)
	s.disarm()
	s.ready, s.later = queue{}, nil
}

// settle applies the results of a batch. Failed messages are redelivered after a back-off, or at
// once if the consumer is closing.
func (s *subscription) settle(batch []delivery, errs []error, closing bool) {
	freed := len(batch)
	for i, err := range errs {
		if err == nil || batch[i].generation != s.generation {
			continue
		}
		freed--
		d := batch[i]
		d.failures++
		if closing {
			s.ready.pushFront(d)
			continue
		}
		heap.Push(&s.later, waiting{at: time.Now().Add(bus.Backoff(d.failures)), delivery: d})
	}
	s.pending -= freed
	if freed > 0 {
		s.topic.wakePublishers()
	}
	s.arm()
}

// arm sets the timer for the earliest scheduled message.
func (s *subscription) arm() {
	if len(s.later) == 0 || s.timer != nil && !s.later[0].at.Before(s.wakeAt) {
		return
	}
	s.disarm()
	s.wakeAt = s.later[0].at
	s.timers.Add(1)
	s.timer = time.AfterFunc(time.Until(s.wakeAt), s.moveDue)
}

func (s *subscription) disarm() {
	if s.timer != nil && s.timer.Stop() {
		s.timers.Done()
	}
	s.timer = nil
}

// moveDue makes scheduled messages ready whose time has come. Two calls can run concurrently if the
// timer was reset while the first waited for the lock. Then the second finds nothing and sets the
// timer again.
func (s *subscription) moveDue() {
	defer s.timers.Done()
	s.topic.mu.Lock()
	defer s.topic.mu.Unlock()
	now := time.Now()
	for len(s.later) > 0 && !s.later[0].at.After(now) {
		s.ready.pushBack(heap.Pop(&s.later).(waiting).delivery)
	}
	s.disarm()
	s.arm()
	s.dispatch()
}
