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

// Limits of what is kept: one more closes the one that was not used for the longest time.
const (
	maxExternalProducers = 1000 // producers of users' topics
	maxExternalClients   = 32   // clients, one for each service URL
)

// externalSendTimeout is how long the client itself tries to send a message. Its attempt has failed long
// before, and is made again: what is sent much later would come behind the fires that follow it.
const externalSendTimeout = 30 * time.Second

// ExternalPublisher publishes to topics that are not Carillon's own, on any Pulsar that is trusted
// (see egress.Topics). It is safe for concurrent use.
type ExternalPublisher struct {
	config Config
	log    zerolog.Logger
	dial   func(pulsar.ClientOptions) (pulsar.Client, error)
	making singleflight.Group // of producers: two calls at once wait for the same one

	mu        sync.Mutex
	clients   *lru.Cache[string, externalClient] // by service URL; empty is the deployment's own
	producers *lru.Cache[[2]string, pulsar.Producer]
	closed    bool
}

// externalClient is a client, and why it has no connection.
type externalClient struct {
	pulsar.Client

	connectFailure *connectFailure
}

// ExternalMessage is a message for such a topic.
type ExternalMessage struct {
	ServiceURL string // pulsar(+ssl)://host:port; empty is the deployment's own
	Topic      string // persistent://tenant/namespace/topic
	Key        string
	Payload    []byte
	Properties map[string]string
	EventTime  time.Time
}

// NewExternalPublisher returns a publisher. config says where the deployment's own Pulsar is, and
// its token, which no other Pulsar is shown.
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
		func(_ [2]string, p pulsar.Producer) { go f.recoverPanic(p.Close) },
	)
	if err != nil {
		return nil, fmt.Errorf("making the cache of producers: %w", err)
	}
	f.clients, err = lru.NewWithEvict(maxExternalClients, func(url string, c externalClient) {
		f.closeProducers(url)
		go f.recoverPanic(c.Close)
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of clients: %w", err)
	}
	return f, nil
}

// recoverPanic keeps a panic of the client library from ending the process. (One in a goroutine of its own
// nobody can catch.)
func (f *ExternalPublisher) recoverPanic(do func()) {
	defer func() {
		if r := recover(); r != nil {
			f.log.Error().Interface("panic", r).Msg("the Pulsar client panicked")
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

// Publish returns when the broker confirmed the message, or ctx ends. An error that can never pass
// is marked by bus.Permanent.
func (f *ExternalPublisher) Publish(ctx context.Context, m ExternalMessage) error {
	p, err := f.producer(ctx, m.ServiceURL, m.Topic)
	if err != nil {
		if isRefused(err) || isNotFound(err) {
			err = bus.Permanent(err)
		}
		return fmt.Errorf(
			"making a producer for %s: %w",
			m.Topic,
			f.connectError(m.ServiceURL, err),
		)
	}
	msg := &pulsar.ProducerMessage{
		Payload:    m.Payload,
		Key:        m.Key,
		Properties: m.Properties,
		EventTime:  m.EventTime,
	}
	if err = send(ctx, p, msg); err == nil {
		return nil
	}
	if key := [2]string{m.ServiceURL, m.Topic}; isGone(err) {
		if kept, ok := f.producers.Peek(key); ok && kept == p {
			f.producers.Remove(key)
		}
	}
	return fmt.Errorf("publishing to %s: %w", m.Topic, f.connectError(m.ServiceURL, err))
}

// connectError returns what an error that only says that nobody answered in time is for.
func (f *ExternalPublisher) connectError(url string, err error) error {
	f.mu.Lock()
	c, ok := f.clients.Peek(url)
	f.mu.Unlock()
	if !ok || bus.IsPermanent(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return c.connectFailure.orCause(err)
}

// send waits for the broker's confirmation. The client panics when its producer closes while a
// message is handed to it: that is an answer too.
func send(ctx context.Context, p pulsar.Producer, msg *pulsar.ProducerMessage) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", pulsar.ErrProducerClosed, r)
		}
	}()
	done := make(chan error, 1)
	p.SendAsync(ctx, msg, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		select {
		case done <- err:
		default: // it was answered before
		}
	})
	select {
	case err = <-done:
		return err
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller says what it was doing
	}
}

// producer returns the producer of a topic. The client's call takes no context: one that comes too
// late is kept for the next message.
func (f *ExternalPublisher) producer(
	ctx context.Context,
	url, topic string,
) (pulsar.Producer, error) {
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
		return m.Val.(pulsar.Producer), nil //nolint:forcetypeassert // create returns no other
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller says what it was doing
	}
}

// create makes a producer and keeps it. Of one key only one create runs: what is kept replaces
// nothing, which would never be closed.
func (f *ExternalPublisher) create(key [2]string) (p pulsar.Producer, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the Pulsar client panicked: %v", r)
		}
	}()
	if p, ok := f.producers.Get(key); ok { // the one before this made it
		return p, nil
	}
	client, err := f.client(key[0])
	if err != nil {
		return nil, err
	}
	p, err = client.CreateProducer(pulsar.ProducerOptions{
		Topic:                   key[1],
		SendTimeout:             externalSendTimeout,
		BatchingMaxPublishDelay: batchDelay,
		BackOffPolicyFunc:       newReconnectBackoff,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		go f.recoverPanic(p.Close)
		return nil, bus.ErrClosed
	}
	f.producers.Add(key, p)
	return p, nil
}

func (f *ExternalPublisher) client(url string) (pulsar.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, bus.ErrClosed
	}
	if c, ok := f.clients.Get(url); ok {
		return c, nil
	}
	connectError := new(connectFailure)
	o := pulsar.ClientOptions{
		URL:               url,
		ConnectionTimeout: connectTimeout,
		OperationTimeout:  operationTimeout,
		Logger:            connectError.listen(newLogger(f.log)),
		// Users choose tenants and namespaces: as labels they would be series without end. The
		// client's default registry is the package-wide one.
		MetricsRegisterer:  prometheus.NewRegistry(),
		MetricsCardinality: pulsar.MetricsCardinalityNone,
	}
	if url == "" {
		if f.config.URL == "" {
			return nil, bus.Permanent(
				errors.New(
					"this deployment has no Pulsar of its own: name one in the target's url",
				),
			)
		}
		o.URL = f.config.URL
		if f.config.Token != "" {
			o.Authentication = pulsar.NewAuthenticationToken(f.config.Token)
		}
	}
	c, err := f.dial(o)
	if err != nil {
		return nil, bus.Permanent(fmt.Errorf("making a Pulsar client: %w", err))
	}
	f.clients.Add(url, externalClient{c, connectError})
	return c, nil
}

// Close closes every producer and client. One that is being made just now is closed when it is
// there.
func (f *ExternalPublisher) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, p := range f.producers.Values() {
		f.recoverPanic(p.Close)
	}
	for _, c := range f.clients.Values() {
		f.recoverPanic(c.Close)
	}
}
