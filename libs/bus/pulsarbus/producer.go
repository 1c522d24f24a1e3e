package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/carillon-timer/carillon/libs/bus"
)

// Limits of a producer.
const (
	batchDelay    = 2 * time.Millisecond // how long a batch waits to fill
	batchMessages = 1000
	maxPending    = 10_000 // messages per partition that are not confirmed
)

// producer sends to one topic. The client's producer is made by the first Publish, and made anew
// when it is gone.
type producer struct {
	topic bus.Topic

	mu        sync.Mutex
	ready     chan struct{} // closed when making has ended; nil when nobody makes one
	current   pulsar.Producer
	err       error         // why making ended without one
	abandoned *confirmation // of messages whose publisher gave up, and which the client still holds
}

// Publish implements bus.Publisher. When ctx ends first, what was handed to the client may still be
// sent.
func (b *Bus) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return bus.ErrClosed
	}
	p, ok := b.producers[topic]
	if !ok {
		p = &producer{topic: topic}
		b.producers[topic] = p
	}
	b.inFlight.Add(1)
	b.mu.Unlock()
	defer b.inFlight.Done()

	if err := b.publish(ctx, p, msgs); err != nil {
		return fmt.Errorf("publishing to %s: %w", topic, err)
	}
	return nil
}

// publish repeats with a new producer what an old one that is gone did not confirm.
func (b *Bus) publish(ctx context.Context, p *producer, msgs []bus.Message) error {
	for len(msgs) > 0 {
		current, err := b.producer(ctx, p)
		if err != nil {
			return err
		}
		if err := b.awaitAbandoned(ctx, p); err != nil {
			return err
		}
		msgs, err = b.send(ctx, p, current, msgs)
		if err == nil {
			return nil
		}
		if !isGone(err) {
			return err
		}
		b.log.Warn().
			Err(err).
			Str("topic", string(p.topic)).
			Msg("producer is gone, making a new one")
		p.discard(current)
		if err := pause(ctx, b.ctx, minRetry); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// awaitAbandoned waits until the broker has answered for what the client holds of publishers that gave up.
// They publish the same again, and again: while the broker is away, copies would pile up that hold
// up everything else when it is back.
func (b *Bus) awaitAbandoned(ctx context.Context, p *producer) error {
	p.mu.Lock()
	abandoned := p.abandoned
	p.mu.Unlock()
	if abandoned == nil {
		return nil
	}
	select {
	case <-abandoned.done:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the broker: %w", ctx.Err())
	case <-b.ctx.Done():
		return bus.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned == abandoned {
		p.abandoned = nil
	}
	return nil
}

// producer waits for the client's producer.
func (b *Bus) producer(ctx context.Context, p *producer) (pulsar.Producer, error) {
	p.mu.Lock()
	if p.current != nil {
		defer p.mu.Unlock()
		return p.current, nil
	}
	if p.ready == nil {
		if err := b.start(func() { b.makeProducer(p) }); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		p.ready = make(chan struct{})
	}
	ready := p.ready
	p.mu.Unlock()
	select {
	case <-ready:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.current == nil {
			return nil, p.err
		}
		return p.current, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the broker: %w", ctx.Err())
	case <-b.ctx.Done():
		return nil, bus.ErrClosed
	}
}

// makeProducer makes the client's producer, whether or not those who wait give up: others will
// come.
func (b *Bus) makeProducer(p *producer) {
	options := pulsar.ProducerOptions{
		Topic: b.full(
			p.topic,
		),
		MaxPendingMessages: maxPending,
		BackOffPolicyFunc:  newReconnectBackoff,
		// the context of Publish is the limit, and what waits is bounded.
		SendTimeout:             -1,
		BatchingMaxPublishDelay: batchDelay,
		BatchingMaxMessages:     batchMessages,
	}
	if p.topic == bus.Slices {
		// Each slice goes to a trigger of its own: a batch goes to one consumer. Batches of one,
		// because without batching the client takes a message with an empty payload for a corrupt
		// one and discards it.
		options.BatchingMaxMessages = 1
	}
	create := func() (pulsar.Producer, error) {
		made, err := b.client.CreateProducer(options)
		if isNotFound(err) {
			err = errors.Join(err, b.restore(p.topic))
		}
		return made, err
	}
	made, err := await(b.ctx, b, "making a producer", create, pulsar.Producer.Close)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.err = made, err
	close(p.ready)
	p.ready = nil
}

// discard forgets a producer that is gone.
func (p *producer) discard(gone pulsar.Producer) {
	p.mu.Lock()
	lost := p.current == gone
	if lost {
		p.current, p.abandoned = nil, nil
	}
	p.mu.Unlock()
	if lost {
		gone.Close()
	}
}

// confirmation collects the broker's answers to one call of Publish.
type confirmation struct {
	mu       sync.Mutex
	answered []bool // by message: the first answer counts
	left     int
	err      error
	failed   []int // the messages that were not confirmed
	done     chan struct{}
}

func (c *confirmation) answer(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered[i] {
		return
	}
	c.answered[i] = true
	if err != nil {
		c.failed = append(c.failed, i)
		if c.err == nil || isGone(c.err) {
			c.err = err
		}
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// send sends, pipelined, and waits until all are confirmed. It returns those that were not.
func (b *Bus) send(
	ctx context.Context,
	p *producer,
	to pulsar.Producer,
	msgs []bus.Message,
) ([]bus.Message, error) {
	c := &confirmation{
		answered: make([]bool, len(msgs)),
		left:     len(msgs),
		done:     make(chan struct{}),
	}
	out := make([]pulsar.ProducerMessage, len(msgs))
	for i, m := range msgs {
		out[i] = pulsar.ProducerMessage{Payload: m.Payload, Key: m.Key, Properties: m.Properties}
		c.send(ctx, to, &out[i], i)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		p.mu.Lock()
		if p.current == to { // one that was lost holds up nobody
			p.abandoned = c
		}
		p.mu.Unlock()
		return nil, fmt.Errorf("waiting for confirmation: %w", ctx.Err())
	case <-b.ctx.Done():
		return nil, bus.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := make([]bus.Message, 0, len(c.failed))
	for _, i := range c.failed {
		failed = append(failed, msgs[i])
	}
	return failed, c.err
}

// send sends one message. The client panics when its producer closes (because the topic is gone)
// while a message is handed to it: that is an answer too.
func (c *confirmation) send(
	ctx context.Context,
	p pulsar.Producer,
	m *pulsar.ProducerMessage,
	i int,
) {
	defer func() {
		if r := recover(); r != nil {
			c.answer(i, fmt.Errorf("%w: %v", pulsar.ErrProducerClosed, r))
		}
	}()
	p.SendAsync(
		ctx,
		m,
		func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { c.answer(i, err) },
	)
}
