package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
)

const broadcastQueue = 1000 // messages buffered for a broadcast handler

// broadcast reads a topic from its end. It creates no durable subscription.
type broadcast struct {
	bus             *Bus
	topic           bus.Topic
	handle          func(context.Context, bus.Message)
	log             zerolog.Logger
	name            string // name of the consumer at the broker
	reconnectSignal reconnectSignal

	ctx    context.Context // context of the handler
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	current pulsar.Reader
	changed chan struct{}    // closed when current is replaced
	last    pulsar.MessageID // position of the last message read
	once    sync.Once
}

// Broadcast implements bus.Subscriber.
func (b *Bus) Broadcast(
	ctx context.Context,
	topic bus.Topic,
	h func(context.Context, bus.Message),
) (bus.Consumer, error) {
	r := &broadcast{
		bus:             b,
		topic:           topic,
		handle:          h,
		name:            identity(),
		reconnectSignal: newReconnectSignal(),
		changed:         make(chan struct{}),
		log: b.log.With().
			Str(logging.Topic, string(topic)).
			Str("subscription", "broadcast").
			Logger(),
	}
	var err error
	if r.last, err = r.end(ctx); err != nil {
		return nil, err
	}
	if r.current, err = r.open(ctx, r.last); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(b.ctx)
	if err := b.attach(r); err != nil {
		r.cancel()
		r.current.Close()
		return nil, err
	}
	r.wg.Go(r.read)
	r.wg.Go(func() { b.watch(r.ctx, topic, r.name, r.reconnectSignal, r.recreate) })
	return r, nil
}

// end returns the position of the last message. A reader that starts at an explicit position
// resumes there after a lost connection. A reader that starts at "latest" would skip messages
// published meanwhile.
func (r *broadcast) end(ctx context.Context) (pulsar.MessageID, error) {
	latest, err := r.open(ctx, pulsar.LatestMessageID())
	if err != nil {
		return nil, err
	}
	defer latest.Close()
	id, err := latest.GetLastMessageID()
	if err != nil { // a partitioned topic has no single position
		r.log.Debug().Err(err).Msg("broadcast starts at the latest message")
		return pulsar.LatestMessageID(), nil
	}
	return id, nil
}

func (r *broadcast) open(ctx context.Context, from pulsar.MessageID) (pulsar.Reader, error) {
	options := pulsar.ReaderOptions{
		Topic: r.bus.full(
			r.topic,
		),
		StartMessageID:    from,
		ReceiverQueueSize: broadcastQueue,
		BackoffPolicyFunc: r.reconnectSignal.reconnectBackoff,
		Name:              r.name,
	}
	create := func() (pulsar.Reader, error) {
		made, err := r.bus.client.CreateReader(options)
		if isNotFound(err) {
			err = errors.Join(err, r.bus.restore(r.topic))
		}
		return made, err
	}
	return await(ctx, r.bus, fmt.Sprintf("reading %s", r.topic), create, pulsar.Reader.Close)
}

// recreate replaces a reader that the client gave up. In a recreated topic every message is unread.
func (r *broadcast) recreate(topicRecreated bool) {
	r.mu.Lock()
	from := r.last
	r.mu.Unlock()
	if topicRecreated {
		from = pulsar.EarliestMessageID()
	}
	fresh, err := r.open(r.ctx, from)
	if err != nil {
		return // closing
	}
	r.log.Warn().Msg("broadcast reader lost and recreated")
	r.mu.Lock()
	old := r.current
	r.current = fresh
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	old.Close()
}

func (r *broadcast) reader() (pulsar.Reader, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.changed
}

func (r *broadcast) read() {
	for r.ctx.Err() == nil {
		current, changed := r.reader()
		m, err := current.Next(r.ctx)
		if err == nil {
			r.mu.Lock()
			r.last = m.ID()
			r.mu.Unlock()
			r.call(received(m))
			continue
		}
		// The reader was closed, by Close or because it was replaced.
		select {
		case <-changed:
		case <-r.ctx.Done():
		}
	}
}

func (r *broadcast) call(m bus.Message) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error().
				Interface("panic", p).
				Bytes("stack", debug.Stack()).
				Msg("broadcast handler panicked")
		}
	}()
	r.handle(r.ctx, m)
}

// Close implements bus.Consumer.
func (r *broadcast) Close() error {
	r.once.Do(func() {
		r.cancel()
		r.wg.Wait()
		current, _ := r.reader()
		leave(current.Close)
		r.bus.detach(r)
	})
	return nil
}
