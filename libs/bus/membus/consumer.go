package membus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
)

const (
	broadcastBatch = 256 // messages per batch of a broadcast consumer
	// deadLetterTimeout limits the publishing of dead letters. After it, their messages are
	// redelivered.
	deadLetterTimeout = 10 * time.Second
)

// consumer is a running subscription or broadcast. It has up to Concurrency workers, and creates
// each when there is first work for it. It buffers no messages besides the batches of its workers
// (B6).
type consumer struct {
	owner  *Bus
	sub    *subscription
	spec   bus.Subscription
	handle bus.Handler
	log    zerolog.Logger
	ctx    context.Context // context of the handlers
	cancel context.CancelFunc
	wg     sync.WaitGroup // the workers

	// The topic's lock guards the fields below.
	idle    []*worker // waiting for messages or for a full batch; the first is filled first
	workers []*worker
	closing bool
	killed  bool
}

// worker calls the handler for one batch after the other.
type worker struct {
	c     *consumer
	batch []delivery // current batch; guarded by the topic's lock
	// wake signals the first message of the batch, or that it is full. Batches are filled only
	// while the worker is idle.
	wake chan struct{}
}

// Subscribe implements bus.Subscriber.
func (c *Bus) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	if s.Name == "" || s.Concurrency < 1 || s.MaxBatch < 1 || s.Prefetch < 1 || s.MaxWait < 0 {
		return nil, fmt.Errorf(
			"subscribing to %s: name, concurrency, batch and prefetch must be set: %+v",
			s.Topic,
			s,
		)
	}
	return c.consume(c.broker.topic(s.Topic).subscription(s.Name), s, h)
}

// Broadcast implements bus.Subscriber.
func (c *Bus) Broadcast(
	ctx context.Context,
	name bus.Topic,
	h func(context.Context, bus.Message),
) (bus.Consumer, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	one := func(ctx context.Context, m bus.Message) {
		defer func() {
			if p := recover(); p != nil {
				c.log.Error().
					Str(logging.Topic, string(name)).
					Interface("panic", p).
					Bytes("stack", debug.Stack()).
					Msg("broadcast handler panicked")
			}
		}()
		h(ctx, m)
	}
	each := func(ctx context.Context, batch []bus.Message) []error {
		for _, m := range batch {
			one(ctx, m)
		}
		return nil
	}
	spec := bus.Subscription{
		Topic:       name,
		Name:        "broadcast",
		Concurrency: 1,
		MaxBatch:    broadcastBatch,
		Prefetch:    1,
	}
	t := c.broker.topic(name)
	s := t.broadcast()
	k, err := c.consume(s, spec, each)
	if err != nil { // closed meanwhile: nobody would read what the subscription gets
		t.remove(s)
		return nil, err
	}
	return k, nil
}

func (c *Bus) consume(s *subscription, spec bus.Subscription, h bus.Handler) (*consumer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, bus.ErrClosed
	}
	k := &consumer{
		owner:  c,
		sub:    s,
		spec:   spec,
		handle: h,
		log: c.log.With().
			Str(logging.Topic, string(spec.Topic)).
			Str("subscription", spec.Name).
			Logger(),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	c.consumers[k] = struct{}{}
	s.topic.mu.Lock()
	s.consumers = append(s.consumers, k)
	s.dispatch()
	s.topic.mu.Unlock()
	return k, nil
}

// room reports whether a worker is idle or can be created. The caller holds the topic's lock.
func (k *consumer) room() bool { return len(k.idle) > 0 || len(k.workers) < k.spec.Concurrency }

// next returns the worker whose batch is filled next. The caller holds the topic's lock and has
// checked room.
func (k *consumer) next() *worker {
	if len(k.idle) == 0 {
		w := &worker{c: k, wake: make(chan struct{}, 1)}
		k.workers, k.idle = append(k.workers, w), append(k.idle, w)
		k.wg.Go(w.run)
	}
	return k.idle[0]
}

// Close implements bus.Consumer. A handler must not call it: it would wait for itself.
func (k *consumer) Close() error {
	k.detach(false)
	k.cancel()
	k.wg.Wait()
	k.owner.mu.Lock()
	delete(k.owner.consumers, k)
	k.owner.mu.Unlock()
	return nil
}

func (k *consumer) kill() {
	k.detach(true)
	k.cancel()
}

// detach removes the consumer from its subscription. It requeues the messages that idle workers
// hold. If killed, it also requeues those being handled.
func (k *consumer) detach(killed bool) {
	t := k.sub.topic
	t.mu.Lock()
	from := k.idle
	if killed {
		from = k.workers
	}
	k.closing, k.killed, k.idle = true, k.killed || killed, nil
	for _, w := range from {
		k.sub.requeue(w.batch)
		w.batch = nil
	}
	k.sub.consumers = slices.DeleteFunc(k.sub.consumers, func(o *consumer) bool { return o == k })
	k.sub.dispatch()
	t.mu.Unlock()
	if k.sub.temporary {
		t.remove(k.sub)
	}
}

func (w *worker) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for w.fill(timer); ; w.receive(timer) { // back to idle
		batch := w.takeBatch()
		if len(batch) == 0 {
			return
		}
		msgs := make([]bus.Message, len(batch)) // a copy, because the handler may keep it
		for i, d := range batch {
			msgs[i] = *d.msg
		}
		errs := w.c.sendToDLQ(batch, w.c.handle.Call(w.c.ctx, msgs))
		w.settle(errs)
	}
}

// receive waits for the next batch.
func (w *worker) receive(timer *time.Timer) {
	k, t := w.c, w.c.sub.topic
	t.mu.Lock()
	if k.closing {
		t.mu.Unlock()
		return
	}
	select {
	case <-w.wake: // a signal that the last batch did not need
	default:
	}
	k.idle = append(k.idle, w)
	k.sub.dispatch()
	t.mu.Unlock()

	w.fill(timer)
}

// takeBatch returns the batch of the worker. An empty batch means that the consumer is closing.
func (w *worker) takeBatch() []delivery {
	k, t := w.c, w.c.sub.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if !k.closing {
		k.idle = slices.DeleteFunc(k.idle, func(o *worker) bool { return o == w })
		return w.batch
	}
	k.sub.requeue(w.batch) // the batch was full when Close was called, but not started
	w.batch = nil
	k.sub.dispatch()
	return nil
}

// fill waits for the first message of the batch, and then until it is full or MaxWait has passed.
// It stops when the consumer closes.
func (w *worker) fill(timer *time.Timer) {
	select {
	case <-w.wake:
	case <-w.c.ctx.Done():
		return
	}
	if w.c.spec.MaxWait == 0 {
		return
	}
	timer.Reset(w.c.spec.MaxWait)
	for !w.full() {
		select {
		case <-w.wake:
		case <-timer.C:
			return
		case <-w.c.ctx.Done():
			return
		}
	}
}

func (w *worker) full() bool {
	w.c.sub.topic.mu.Lock()
	defer w.c.sub.topic.mu.Unlock()
	return len(w.batch) == w.c.spec.MaxBatch
}

// settle reports the result of the batch to the subscription. After Kill it reports nothing.
func (w *worker) settle(errs []error) {
	t := w.c.sub.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.c.killed {
		w.c.sub.settle(w.batch, errs, w.c.closing)
		w.c.sub.dispatch()
	}
	clear(w.batch) // release the messages
	w.batch = w.batch[:0]
}

// sendToDLQ publishes messages with permanent errors as dead letters (B4), and sets their errors to
// nil. If publishing fails, the messages are redelivered: a duplicate dead letter is better than a
// lost one.
func (k *consumer) sendToDLQ(batch []delivery, errs []error) []error {
	var dead []bus.Message
	var which []int
	bus.LogRedeliveries(k.log, errs)
	for i, err := range errs {
		if err == nil || !bus.IsPermanent(err) {
			continue
		}
		k.log.Error().Err(err).Str("to", string(k.spec.DeadLetter)).Msg("message rejected")
		if k.spec.DeadLetter == "" {
			errs[i] = nil
			continue
		}
		m, err := bus.DeadLetter(k.spec.Topic, *batch[i].msg, err)
		if err != nil {
			k.log.Error().Err(err).Msg("dead letter not encoded")
			continue
		}
		dead, which = append(dead, m), append(which, i)
	}
	if len(dead) == 0 {
		return errs
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), deadLetterTimeout)
	defer cancel()
	if err := k.owner.broker.topic(k.spec.DeadLetter).publish(ctx, k.owner, dead); err != nil {
		if !errors.Is(err, bus.ErrClosed) {
			k.log.Error().Err(err).Msg("dead letters not published")
		}
		return errs
	}
	for _, i := range which {
		errs[i] = nil
	}
	return errs
}
