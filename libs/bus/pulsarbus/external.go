package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/carillon-timer/carillon/libs/bus"
)

// batchDelay is how long a message for a timer's topic waits to be sent, unless the next one comes
// first.
const batchDelay = 2 * time.Millisecond

// Sizes of the caches. A new entry closes the least recently used one.
const (
	maxExternalProducers = 1000 // producers of external topics
	maxExternalClients   = 32   // clients, one per service URL
)

// externalSendTimeout is how long the client library tries to send a message. The attempt fails
// long before and is repeated. A message sent much later would arrive after newer fires.
const externalSendTimeout = 30 * time.Second

// ExternalPublisher publishes to topics outside Carillon, on any trusted Pulsar (see
// egress.Topics). It is safe for concurrent use.
type ExternalPublisher struct {
	config Config
	log    zerolog.Logger
	dial   func(pulsar.ClientOptions) (pulsar.Client, error)
	making singleflight.Group // concurrent calls share the creation of one producer

	mu        sync.Mutex
	clients   *lru.Cache[string, externalClient] // by service URL; "" is the deployment's own
	producers *lru.Cache[[2]string, *externalProducer]
	closed    bool
}

// externalClient is a client and the reason why it is not connected.
type externalClient struct {
	pulsar.Client

	state *connectionState
}

// ExternalMessage is a message for an external topic.
type ExternalMessage struct {
	ServiceURL string // pulsar(+ssl)://host:port; empty means the deployment's own
	Topic      string // persistent://tenant/namespace/topic
	Key        string
	Payload    []byte
	Properties map[string]string
	EventTime  time.Time
}

// NewExternalPublisher returns a publisher. config is the deployment's own Pulsar; its token and
// its certificate are never sent to another.
func NewExternalPublisher(config Config, log zerolog.Logger) (*ExternalPublisher, error) {
	return newExternalPublisher(config, log, pulsar.NewClient)
}

func newExternalPublisher(
	config Config,
	log zerolog.Logger,
	dial func(pulsar.ClientOptions) (pulsar.Client, error),
) (*ExternalPublisher, error) {
	f := &ExternalPublisher{config: config, log: log, dial: dial}
	var err error
	f.producers, err = lru.NewWithEvict(
		maxExternalProducers,
		func(_ [2]string, p *externalProducer) {
			p.discard()
			go f.recoverPanic(p.Close)
		},
	)
	if err != nil {
		return nil, fmt.Errorf("creating the cache of producers: %w", err)
	}
	f.clients, err = lru.NewWithEvict(maxExternalClients, func(url string, c externalClient) {
		f.closeProducers(url)
		go f.recoverPanic(c.Close)
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of clients: %w", err)
	}
	return f, nil
}

// recoverPanic runs do and logs a panic of the client library. It cannot catch panics in goroutines
// of the library.
func (f *ExternalPublisher) recoverPanic(do func()) {
	defer func() {
		if r := recover(); r != nil {
			f.log.Error().Interface("panic", r).Msg("pulsar client panicked")
		}
	}()
	do()
}

// closeProducers closes the producers of a service URL.
func (f *ExternalPublisher) closeProducers(url string) {
	for _, k := range f.producers.Keys() {
		if k[0] == url {
			f.producers.Remove(k)
		}
	}
}

// Publish returns when the broker has confirmed the message, or when ctx ends. Permanent errors are
// marked by bus.Permanent.
func (f *ExternalPublisher) Publish(ctx context.Context, m ExternalMessage) error {
	err := errDiscarded
	for errors.Is(err, errDiscarded) { // by another call, or for want of space
		err = f.publish(ctx, &m)
	}
	if errors.Is(err, pulsar.ErrProducerClosed) {
		// The client closed the producer before this message, because its topic is gone. It sent
		// nothing. Only a new producer learns from the broker what has become of the topic.
		err = f.publish(ctx, &m)
	}
	return err
}

func (f *ExternalPublisher) publish(ctx context.Context, m *ExternalMessage) error {
	p, err := f.producer(ctx, m.ServiceURL, m.Topic)
	if err != nil {
		return fmt.Errorf(
			"creating a producer for %s: %w",
			m.Topic,
			f.connectError(m.ServiceURL, answered(err)),
		)
	}
	msg := &pulsar.ProducerMessage{
		Payload:    m.Payload,
		Key:        m.Key,
		Properties: m.Properties,
		EventTime:  m.EventTime,
	}
	err = p.send(ctx, msg)
	if err == nil {
		return nil
	}
	why := answered(err)
	if p.state.disconnected(m.Topic) { // which is forgotten with the producer
		why = f.connectError(m.ServiceURL, why)
	}
	_, abandoned := errors.AsType[abandonedError](err)
	if key := [2]string{m.ServiceURL, m.Topic}; abandoned || isGone(err) {
		if kept, ok := f.producers.Peek(key); ok && kept == p {
			f.producers.Remove(key)
		}
	}
	return fmt.Errorf("publishing to %s: %w", m.Topic, why)
}

// answered marks an error by which the broker answered.
func answered(err error) error {
	switch {
	case isInvalid(err), isTerminated(err):
		return bus.Permanent(err)
	case isAnswer(err), isDenied(err):
		return bus.Refused(err)
	}
	return err
}

// connectError replaces a timeout by the connection error that caused it, if there is one.
func (f *ExternalPublisher) connectError(url string, err error) error {
	f.mu.Lock()
	c, ok := f.clients.Peek(url)
	f.mu.Unlock()
	if !ok || bus.IsPermanent(err) || bus.IsRefused(err) || errors.Is(err, context.Canceled) ||
		errors.Is(err, errDiscarded) {
		return err
	}
	return c.state.orCause(err)
}

// producer returns the producer of a topic. The client's call takes no context, so a producer
// created too late is kept for the next message.
func (f *ExternalPublisher) producer(
	ctx context.Context,
	url, topic string,
) (*externalProducer, error) {
	key := [2]string{url, topic}
	if p, ok := f.producers.Get(key); ok {
		return p, nil
	}
	made := f.making.DoChan(url+" "+topic, func() (any, error) { return f.create(key) })
	select {
	case m := <-made:
		if m.Err != nil {
			return nil, m.Err
		}
		return m.Val.(*externalProducer), nil //nolint:forcetypeassert // create returns no other
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller says what it was doing
	}
}

// create creates a producer and caches it. Only one create runs per key, so it never replaces a
// cached producer, which would then never be closed.
func (f *ExternalPublisher) create(key [2]string) (p *externalProducer, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pulsar client panicked: %v", r)
		}
	}()
	if p, ok := f.producers.Get(key); ok { // an earlier call created it
		return p, nil
	}
	client, err := f.client(key[0])
	if err != nil {
		return nil, err
	}
	made, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic:                   key[1],
		SendTimeout:             externalSendTimeout,
		BatchingMaxPublishDelay: batchDelay,
		// A batch goes to one consumer, but each key has its own (Key_Shared). So batches have one
		// message. Batching stays on, because without it the client discards messages with empty
		// payloads as corrupt.
		BatchingMaxMessages: 1,
		BackOffPolicyFunc:   newReconnectBackoff,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	p = newExternalProducer(key[1], client.state, made)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		go f.recoverPanic(p.Close)
		return nil, bus.ErrClosed
	}
	f.producers.Add(key, p)
	return p, nil
}

func (f *ExternalPublisher) client(url string) (c externalClient, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return c, bus.ErrClosed
	}
	if c, ok := f.clients.Get(url); ok {
		return c, nil
	}
	state := newConnectionState()
	o := pulsar.ClientOptions{
		URL:               url,
		ConnectionTimeout: connectTimeout,
		OperationTimeout:  operationTimeout,
		Logger:            state.listen(newLogger(f.log)),
		// Users choose tenants and namespaces, so as labels they would be unbounded. The default
		// registry of the client is global.
		MetricsRegisterer:  prometheus.NewRegistry(),
		MetricsCardinality: pulsar.MetricsCardinalityNone,
	}
	if url == "" {
		if f.config.URL == "" {
			return c, bus.Permanent(
				errors.New(
					"this deployment has no Pulsar of its own: name one in the target's url",
				),
			)
		}
		f.config.login(&o)
	}
	dialed, err := f.dial(o)
	if err != nil {
		return c, bus.Permanent(fmt.Errorf("creating a Pulsar client: %w", err))
	}
	c = externalClient{dialed, state}
	f.clients.Add(url, c)
	return c, nil
}

// Close closes every producer and client, at once: while a broker hangs, each close takes the time of
// a request. A producer being created is closed when it is ready.
func (f *ExternalPublisher) Close() {
	f.mu.Lock()
	f.closed = true
	producers, clients := f.producers.Values(), f.clients.Values()
	f.mu.Unlock()
	leave(func() {
		var g sync.WaitGroup
		for _, p := range producers {
			g.Go(func() { f.recoverPanic(p.Close) })
		}
		g.Wait()
		for _, c := range clients {
			g.Go(func() { f.recoverPanic(c.Close) })
		}
		g.Wait()
	})
}
