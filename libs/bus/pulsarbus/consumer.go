package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
)

const (
	// ackDelay is how long acknowledgements are grouped. The client looks this often for
	// acknowledgements to send, in each partition of each consumer, busy or idle. It is below
	// bus.MinBackoff. A crash makes the broker redeliver what was not yet acknowledged.
	ackDelay = 100 * time.Millisecond
	ackGroup = 1000
	// nackPrecisionBits rounds the time of a redelivery down to 16 ms. The default of 256 ms would
	// defeat the back-off.
	nackPrecisionBits = 4
	deadLetterTimeout = 10 * time.Second
)

// consumer is a running subscription. Its workers collect batches from the queue one at a time, and
// handle them concurrently.
type consumer struct {
	bus             *Bus
	spec            bus.Subscription
	handle          bus.Handler
	log             zerolog.Logger
	name            string // name of the consumer at the broker
	reconnectSignal reconnectSignal
	collecting      chan struct{} // held by the worker that collects

	ctx    context.Context // context of the handlers
	cancel context.CancelFunc
	wg     sync.WaitGroup // workers and watch

	mu       sync.Mutex
	current  source
	replaced chan struct{} // closed when current is replaced
	once     sync.Once
}

// source is a consumer of the client with a queue of its own. A source that the client has not
// created completely, or could not, also delivers messages. Nobody takes these, and the broker
// redelivers them when the source closes. So workers have only messages that they can settle at
// once, and a partition that is away holds up no others.
type source struct {
	pulsar.Consumer

	queue chan pulsar.ConsumerMessage
}

// Subscribe implements bus.Subscriber.
func (b *Bus) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	if s.Name == "" || s.Concurrency < 1 || s.MaxBatch < 1 || s.Prefetch < 1 || s.MaxWait < 0 {
		return nil, fmt.Errorf(
			"subscribing to %s: name, concurrency, batch and prefetch must be set: %+v",
			s.Topic,
			s,
		)
	}
	c := &consumer{
		bus:             b,
		spec:            s,
		handle:          h,
		name:            identity(),
		reconnectSignal: newReconnectSignal(),
		collecting:      make(chan struct{}, 1),
		replaced:        make(chan struct{}),
		log: b.log.With().
			Str(logging.Topic, string(s.Topic)).
			Str("subscription", s.Name).
			Logger(),
	}
	first, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	c.current = first
	c.ctx, c.cancel = context.WithCancel(b.ctx)
	if err := b.attach(c); err != nil {
		c.cancel()
		first.Close()
		return nil, err
	}
	for range s.Concurrency {
		c.wg.Go(c.work)
	}
	c.wg.Go(func() { b.watch(c.ctx, s.Topic, c.name, c.reconnectSignal, c.recreate) })
	return c, nil
}

// open creates the client's consumer. It also recreates the topic if that is lost.
func (c *consumer) open(ctx context.Context) (source, error) {
	precision := int64(nackPrecisionBits)
	options := pulsar.ConsumerOptions{
		Topic: c.bus.full(
			c.spec.Topic,
		),
		SubscriptionName:               c.spec.Name,
		Type:                           pulsar.Shared,
		Name:                           c.name,
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		ReceiverQueueSize:              c.spec.Prefetch - c.spec.Prefetch/2,
		NackBackoffPolicy:              nackBackoff{},
		NackPrecisionBit:               &precision,
		BackOffPolicyFunc:              c.reconnectSignal.reconnectBackoff,
		EnableBatchIndexAcknowledgment: true,
		// watch finds added partitions. Where one of them does not answer, the client's own search
		// closes all others, and its Close panics later.
		AutoDiscoveryPeriod: neverDiscovers,
		AckGroupingOptions: &pulsar.AckGroupingOptions{
			MaxSize: ackGroup,
			MaxTime: ackDelay,
		},
	}
	create := func() (source, error) {
		// The client buffers its receiver queue in addition to the channel, so the two share
		// Prefetch.
		options.MessageChannel = make(chan pulsar.ConsumerMessage, c.spec.Prefetch/2)
		made, err := c.bus.client.Subscribe(options)
		if isNotFound(err) {
			err = errors.Join(err, c.bus.restore(c.spec.Topic))
		}
		return source{made, options.MessageChannel}, err
	}
	return await(ctx, c.bus, "subscribing to "+string(c.spec.Topic), create, source.Close)
}

// nackBackoff applies bus.Backoff. The broker counts the redeliveries of a message from 0.
type nackBackoff struct{}

func (nackBackoff) Next(redeliveries uint32) time.Duration {
	return bus.Backoff(int(redeliveries) + 1)
}

// recreate replaces the client's consumer. Until the new one is complete, workers go on with the old
// one. What they have not settled by then, the broker redelivers.
func (c *consumer) recreate(bool) {
	fresh, err := c.open(c.ctx)
	if err != nil {
		return // closing
	}
	c.log.Warn().Msg("consumer lost and recreated")
	c.mu.Lock()
	old := c.current
	c.current = fresh
	close(c.replaced)
	c.replaced = make(chan struct{})
	c.mu.Unlock()
	old.Close()
}

// Close implements bus.Consumer.
func (c *consumer) Close() error {
	c.once.Do(func() {
		c.cancel()
		c.wg.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		leave(c.current.Close) // flushes the acknowledgements; the broker redelivers the rest
		c.bus.detach(c)
	})
	return nil
}

func (c *consumer) work() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch := c.collect(timer)
		if len(batch) == 0 {
			return
		}
		msgs := make([]bus.Message, len(batch))
		for i, m := range batch {
			msgs[i] = received(m.Message)
		}
		c.settle(batch, c.sendToDLQ(msgs, c.handle.Call(c.ctx, msgs)))
	}
}

// received returns a message of the client. The client sets the publish time by the clock of its
// host, and the event time only if the publisher has set Published.
func received(m pulsar.Message) bus.Message {
	published := m.EventTime()
	if published.UnixMilli() <= 0 {
		published = m.PublishTime()
	}
	return bus.Message{
		Key: m.Key(), Payload: m.Payload(), Properties: m.Properties(), Published: published,
	}
}

// collect waits until no other worker collects, then for a first message. Then it waits at most
// MaxWait until the batch is full. It returns nothing when the consumer closes; the broker
// redelivers what it had collected.
func (c *consumer) collect(timer *time.Timer) []pulsar.ConsumerMessage {
	select {
	case c.collecting <- struct{}{}:
	case <-c.ctx.Done():
		return nil
	}
	defer func() { <-c.collecting }()
	m, queue := c.first()
	if queue == nil {
		return nil
	}
	batch := []pulsar.ConsumerMessage{m}
	timer.Reset(c.spec.MaxWait)
	for len(batch) < c.spec.MaxBatch {
		select { // take available messages without waiting, even if MaxWait is 0
		case m := <-queue:
			batch = append(batch, m)
			continue
		default:
		}
		select {
		case m := <-queue:
			batch = append(batch, m)
		case <-timer.C:
			return batch
		case <-c.ctx.Done():
			return nil
		}
	}
	return batch
}

// first waits for a message, and returns it with the queue that it came from. The queue is nil when
// the consumer closes.
func (c *consumer) first() (m pulsar.ConsumerMessage, queue <-chan pulsar.ConsumerMessage) {
	for {
		c.mu.Lock()
		from, replaced := c.current, c.replaced
		c.mu.Unlock()
		select {
		case m := <-from.queue:
			return m, from.queue
		case <-replaced:
		case <-c.ctx.Done():
			return m, nil
		}
	}
}

// settle acknowledges successful messages and nacks the others, each at the consumer that delivered
// it. If that is closed meanwhile, the broker redelivers them.
func (c *consumer) settle(batch []pulsar.ConsumerMessage, errs []error) {
	for i, m := range batch {
		if errs != nil && errs[i] != nil {
			m.Nack(m.Message)
			continue
		}
		if err := m.Ack(m.Message); err != nil {
			c.log.Debug().Err(err).Msg("message not acknowledged, it will be redelivered")
		}
	}
}

// sendToDLQ publishes messages with permanent errors as dead letters (B4), and sets their errors to
// nil. If publishing fails, the messages are redelivered: a duplicate dead letter is better than a
// lost one.
func (c *consumer) sendToDLQ(msgs []bus.Message, errs []error) []error {
	var dead []bus.Message
	var which []int
	if c.ctx.Err() == nil {
		bus.LogRedeliveries(c.log, errs)
	}
	for i, err := range errs {
		switch {
		case err == nil || !bus.IsPermanent(err):
		case c.spec.DeadLetter == "":
			c.log.Error().Err(err).Msg("message rejected and dropped")
			errs[i] = nil
		default:
			c.log.Error().Err(err).Str("to", string(c.spec.DeadLetter)).Msg("message rejected")
			m, err := bus.DeadLetter(c.spec.Topic, msgs[i], err)
			if err != nil {
				c.log.Error().Err(err).Msg("dead letter not encoded")
				continue
			}
			dead, which = append(dead, m), append(which, i)
		}
	}
	if len(dead) == 0 {
		return errs
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), deadLetterTimeout)
	defer cancel()
	if err := c.bus.Publish(ctx, c.spec.DeadLetter, dead...); err != nil {
		c.log.Error().Err(err).Msg("dead letters not published")
		return errs
	}
	for _, i := range which {
		errs[i] = nil
	}
	return errs
}
