package membus

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

// topic is a topic with its subscriptions. Its lock also guards the subscriptions, their consumers
// and their workers.
type topic struct {
	broker *Broker
	name   bus.Topic
	limit  int // messages per subscription

	mu      sync.Mutex
	durable map[string]*subscription
	subs    []*subscription // durable subscriptions, and one per broadcast consumer
	// room is closed when waiting publishers should retry; nil if none waits.
	room chan struct{}
	rng  *rand.Rand // for the faults
}

// partFactor says how many messages are stored in parts: more than this part of the limit.
const partFactor = 8

// publish stores the messages and returns when all are stored (B1). It waits until there is room for
// all: otherwise a publisher that gives up would repeat those that were stored, and fill the topic
// with them. Large batches are stored in parts, because they could wait for ever for so much room.
func (t *topic) publish(ctx context.Context, from *Bus, msgs []bus.Message) error {
	faults := t.broker.faults.Load()
	if t.draw(faults.FailPublish) {
		return errFailed
	}
	stored := clone(msgs)
	for len(stored) > 0 {
		n, room, err := t.store(from, stored)
		if err != nil {
			return err
		}
		stored = stored[n:]
		if room == nil {
			continue
		}
		select {
		case <-room:
		case <-from.done:
			return bus.ErrClosed
		case <-ctx.Done():
			if len(msgs) <= t.limit/partFactor && !t.broker.paused.Load() {
				return fmt.Errorf("%w: %w", bus.ErrFull, ctx.Err())
			}
			return fmt.Errorf("waiting for room: %w", ctx.Err())
		}
	}
	if t.draw(faults.FailAfterPublish) {
		return errFailAfter
	}
	return nil
}

func (t *topic) draw(p float64) bool {
	if p <= 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return chance(t.rng, p)
}

// clone copies everything that a publisher may change afterwards. The payloads share one
// allocation.
func clone(msgs []bus.Message) []bus.Message {
	now := time.Now()
	size := 0
	for i := range msgs {
		size += len(msgs[i].Payload)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	out := slices.Clone(msgs)
	for i := range out {
		start := buf.Len()
		buf.Write(out[i].Payload)
		out[i].Payload = buf.Bytes()[start:buf.Len():buf.Len()]
		out[i].Properties = maps.Clone(out[i].Properties)
		if out[i].Published.IsZero() {
			out[i].Published = now
		}
	}
	return out
}

// store adds the messages to the subscriptions if all fit, or as many as fit of a large batch. It
// returns how many it has added, and if not all, a channel to wait for.
func (t *topic) store(from *Bus, msgs []bus.Message) (n int, room <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from.killed.Load() {
		// Checked under the lock: Kill takes the same lock, so nothing is stored after it.
		return 0, nil, bus.ErrClosed
	}
	n = len(msgs)
	if t.broker.paused.Load() {
		n = 0
	} else {
		for _, s := range t.subs {
			n = min(n, max(0, t.limit-s.pending))
		}
		if n < len(msgs) && len(msgs) <= t.limit/partFactor {
			n = 0
		}
	}
	faults := t.broker.faults.Load()
	for _, s := range t.subs {
		for i := range msgs[:n] {
			s.accept(&msgs[i], faults)
		}
		s.arm()
		s.dispatch()
	}
	if n == len(msgs) {
		return n, nil, nil
	}
	if t.room == nil {
		t.room = make(chan struct{})
	}
	return n, t.room, nil
}

// wakePublishers makes waiting publishers retry.
func (t *topic) wakePublishers() {
	if t.room != nil {
		close(t.room)
		t.room = nil
	}
}

// subscription returns a durable subscription, and creates it if it is missing.
func (t *topic) subscription(name string) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.durable[name]
	if !ok {
		s = &subscription{topic: t, name: name}
		t.durable[name] = s
		t.subs = append(t.subs, s)
	}
	return s
}

// broadcast returns a new subscription for one broadcast consumer.
func (t *topic) broadcast() *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &subscription{topic: t, name: "broadcast", temporary: true}
	t.subs = append(t.subs, s)
	return s
}

// remove drops a broadcast subscription with its messages.
func (t *topic) remove(s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subs = slices.DeleteFunc(t.subs, func(o *subscription) bool { return o == s })
	t.wakePublishers()
}

func (t *topic) backlog(name string) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.durable[name]
	if !ok {
		return 0, fmt.Errorf("topic %s has no subscription %s", t.name, name)
	}
	return int64(s.pending), nil
}

func (t *topic) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subs {
		s.dispatch()
	}
	t.wakePublishers()
}

func (t *topic) purge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subs {
		s.purge()
	}
	t.wakePublishers()
}

// stop drops everything and waits for running timers.
func (t *topic) stop() {
	t.mu.Lock()
	subs := t.subs
	t.subs, t.durable = nil, make(map[string]*subscription)
	for _, s := range subs {
		s.disarm()
		s.ready, s.later, s.pending = queue{}, nil, 0
	}
	t.wakePublishers()
	t.mu.Unlock()
	for _, s := range subs {
		s.timers.Wait()
	}
}
