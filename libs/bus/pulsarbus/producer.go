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
	batchMessages = 1000
	maxPending    = 10_000 // unconfirmed messages per partition
)

// producer sends to one topic. The first Publish creates the client's producers, one for each
// partition. They are recreated when one is gone.
type producer struct {
	topic bus.Topic

	mu        sync.Mutex
	ready     chan struct{} // closed when the creation has ended; nil if none runs
	current   *partitions
	looked    time.Time     // when the partitions were last looked up
	err       error         // why the last creation, or try of it, failed
	abandoned *confirmation // messages whose publisher gave up, but which the client still holds
}

// Publish implements bus.Publisher. If ctx ends first, messages that the client holds may still be
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

// publish sends the messages. If the producer is gone, it repeats the unconfirmed ones with a new
// producer.
func (b *Bus) publish(ctx context.Context, p *producer, msgs []bus.Message) error {
	for len(msgs) > 0 {
		current, err := b.producer(ctx, p)
		if err != nil {
			return err
		}
		if err := b.awaitAbandoned(ctx, p, current); err != nil {
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
			Msg("producer closed, creating a new one")
		p.discard(current)
		if err := pause(ctx, b.ctx, minRetry); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// awaitAbandoned waits until the broker has answered for messages whose publishers gave up. Those
// publishers repeat the same messages. Without this wait, copies would accumulate during an outage
// and delay everything after it. A producer of the client that closes itself fails what it has sent,
// but may forget what it was about to send. For that nobody answers, so it is not waited for.
func (b *Bus) awaitAbandoned(ctx context.Context, p *producer, current *partitions) error {
	p.mu.Lock()
	abandoned := p.abandoned
	p.mu.Unlock()
	if abandoned == nil || current.areGone() {
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

// producer returns the client's producers, and waits while they are being created.
func (b *Bus) producer(ctx context.Context, p *producer) (*partitions, error) {
	p.mu.Lock()
	if current := p.current; current != nil {
		look := time.Since(p.looked) > growInterval
		if look {
			p.looked = time.Now()
		}
		p.mu.Unlock()
		if look {
			_ = b.start(func() { b.grow(p, current) }) // it fails when the bus closes
		}
		return current, nil
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
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err != nil {
			return nil, fmt.Errorf("waiting for the broker: %w: %w", ctx.Err(), p.err)
		}
		return nil, fmt.Errorf("waiting for the broker: %w", ctx.Err())
	case <-b.ctx.Done():
		return nil, bus.ErrClosed
	}
}

// makeProducer creates the client's producers. It continues even if all callers give up, because
// others will need them.
func (b *Bus) makeProducer(p *producer) {
	create := func() (*partitions, error) {
		made, err := b.openPartitions(p.topic, nil)
		if isNotFound(err) {
			err = errors.Join(err, b.restore(p.topic))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
		return made, err
	}
	made, err := await(
		b.ctx,
		b,
		"creating a producer of "+string(p.topic),
		create,
		(*partitions).close,
	)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.err = made, err
	p.looked = time.Now()
	close(p.ready)
	p.ready = nil
}

// producerOptions returns the options for one partition of a topic, or for one without partitions.
func (b *Bus) producerOptions(topic bus.Topic, partition string) pulsar.ProducerOptions {
	options := pulsar.ProducerOptions{
		Topic:              partition,
		MaxPendingMessages: maxPending,
		BackOffPolicyFunc:  newReconnectBackoff,
		// The context of Publish is the limit, and pending messages are bounded.
		SendTimeout:             -1,
		BatchingMaxPublishDelay: flushInterval,
		BatchingMaxMessages:     batchMessages,

		PartitionsAutoDiscoveryInterval: neverDiscovers,
	}
	if topic == bus.Slices {
		// Each slice goes to its own trigger, but a batch goes to one consumer. So batches have one
		// message. Batching stays on, because without it the client discards messages with empty
		// payloads as corrupt.
		options.BatchingMaxMessages = 1
	}
	return options
}

// discard closes producers of which one is gone, and forgets them.
func (p *producer) discard(gone *partitions) {
	p.mu.Lock()
	lost := p.current == gone
	if lost {
		p.current, p.abandoned = nil, nil
	}
	p.mu.Unlock()
	if lost {
		gone.close()
	}
}

// confirmation collects the broker's answers for one call of Publish.
type confirmation struct {
	mu       sync.Mutex
	answered []bool // by message; only the first answer counts
	left     int
	err      error
	failed   []int // messages that were not confirmed
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

// send sends the messages, pipelined, flushes them, and waits for all confirmations. It returns the
// unconfirmed messages.
func (b *Bus) send(
	ctx context.Context,
	p *producer,
	to *partitions,
	msgs []bus.Message,
) ([]bus.Message, error) {
	c := &confirmation{
		answered: make([]bool, len(msgs)),
		left:     len(msgs),
		done:     make(chan struct{}),
	}
	out := make([]pulsar.ProducerMessage, len(msgs))
	touched := make([]bool, len(to.producers))
	for i, n := range to.of(msgs) {
		m := &msgs[i]
		out[i] = pulsar.ProducerMessage{
			Payload: m.Payload, Key: m.Key, Properties: m.Properties, EventTime: m.Published,
		}
		touched[n] = true
		c.send(ctx, to.producers[n], &out[i], i)
	}
	flushing, answered := context.WithCancel(ctx)
	defer answered() // a producer that closes answers each message, but no flush
	for n, t := range touched {
		if t {
			b.wg.Go(func() { to.flush(flushing, n) }) // Close waits for Publish first
		}
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		p.mu.Lock()
		if p.current == to { // a discarded producer blocks nobody
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

// send sends one message. The client panics if its producer closes during the call (because the
// topic is gone). That counts as an answer.
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
