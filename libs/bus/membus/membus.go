package membus

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
)

// DefaultMaxMessages is the default of Options.MaxMessages.
const DefaultMaxMessages = 1 << 17

// Options configure a broker. The zero value has the default limits, no faults and no log.
type Options struct {
	// MaxMessages limits the unacknowledged messages per subscription; Publish waits for capacity.
	// 0 means DefaultMaxMessages.
	MaxMessages int
	Faults      Faults         // injected errors
	Log         zerolog.Logger // the zero value writes nothing
}

// Broker holds the topics. It starts no goroutines; each consumer starts and stops its own.
type Broker struct {
	opts   Options
	faults atomic.Pointer[Faults]
	paused atomic.Bool

	mu     sync.Mutex // guards the maps and closed; acquired before any topic's lock
	topics map[bus.Topic]*topic
	buses  map[*Bus]struct{}
	closed bool
}

// NewBroker returns an empty broker.
func NewBroker(o Options) *Broker {
	if o.MaxMessages <= 0 {
		o.MaxMessages = DefaultMaxMessages
	}
	b := &Broker{opts: o, topics: make(map[bus.Topic]*topic), buses: make(map[*Bus]struct{})}
	b.faults.Store(&o.Faults)
	return b
}

// Bus returns the bus of one more client. name appears in the log.
func (b *Broker) Bus(name string) *Bus {
	c := &Bus{
		broker: b, log: b.opts.Log.With().Str("client", name).Logger(),
		done: make(chan struct{}), consumers: make(map[*consumer]struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		c.closed = true
		close(c.done)
		return c
	}
	b.buses[c] = struct{}{}
	return c
}

// SetFaults replaces the injected faults. The seed remains that of the options.
func (b *Broker) SetFaults(f Faults) { b.faults.Store(&f) }

// Pause makes the broker unavailable. It delivers nothing, and Publish and Ping block until ctx
// ends or Resume is called. Running handlers continue, and their results count.
func (b *Broker) Pause() { b.paused.Store(true) }

// Resume ends a Pause.
func (b *Broker) Resume() {
	b.paused.Store(false)
	for _, t := range b.all() {
		t.resume()
	}
}

// Purge has the effect of deleting and recreating a topic: its subscriptions lose all waiting
// messages. Messages being handled are not redelivered, whatever the result.
func (b *Broker) Purge(name bus.Topic) { b.topic(name).purge() }

// Close closes every client and drops all messages.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	buses := make([]*Bus, 0, len(b.buses))
	for c := range b.buses {
		buses = append(buses, c)
	}
	b.mu.Unlock()
	var errs []error
	for _, c := range buses {
		errs = append(errs, c.Close())
	}
	for _, t := range b.all() {
		t.stop()
	}
	return errors.Join(errs...)
}

func (b *Broker) all() []*topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	ts := make([]*topic, 0, len(b.topics))
	for _, t := range b.topics {
		ts = append(ts, t)
	}
	return ts
}

// topic returns a topic, and creates it if it is missing. An embedded broker needs no Setup for
// topics without subscriptions.
func (b *Broker) topic(name bus.Topic) *topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.topics[name]
	if ok {
		return t
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	t = &topic{
		broker: b, name: name, limit: b.opts.MaxMessages, durable: make(map[string]*subscription),
		rng: rand.New(rand.NewPCG(b.opts.Faults.Seed, h.Sum64())),
	}
	b.topics[name] = t
	return t
}

// Bus is one client's connection to a broker. It implements bus.Bus.
type Bus struct {
	broker *Broker
	log    zerolog.Logger
	done   chan struct{} // closed by Close and Kill

	mu        sync.Mutex // guards consumers and closed; never acquired under a topic's lock
	consumers map[*consumer]struct{}
	closed    bool
	killed    atomic.Bool
}

var _ bus.Bus = (*Bus)(nil)

// Publish implements bus.Publisher. It copies the messages.
func (c *Bus) Publish(ctx context.Context, name bus.Topic, msgs ...bus.Message) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	if err := c.broker.topic(name).publish(ctx, c, msgs); err != nil {
		return fmt.Errorf("publishing to %s: %w", name, err)
	}
	return nil
}

// Setup implements bus.Admin. It ignores partitions, schemas and retention.
func (c *Bus) Setup(ctx context.Context, specs []bus.TopicSpec) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	for _, s := range specs {
		t := c.broker.topic(s.Topic)
		for _, name := range s.Subscriptions {
			t.subscription(name)
		}
	}
	return nil
}

// Backlog implements bus.Admin.
func (c *Bus) Backlog(ctx context.Context, name bus.Topic, subscription string) (int64, error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	return c.broker.topic(name).backlog(subscription)
}

// Ping implements bus.Admin.
func (c *Bus) Ping(ctx context.Context) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	if c.broker.paused.Load() {
		return errUnavailable
	}
	return nil
}

// Close implements bus.Bus.
func (c *Bus) Close() error {
	for _, k := range c.end() {
		_ = k.Close()
	}
	c.broker.mu.Lock()
	delete(c.broker.buses, c)
	c.broker.mu.Unlock()
	return nil
}

// Kill ends the client as SIGKILL would. Its unacknowledged messages are delivered to others at
// once, and later results of its handlers never reach the broker. Kill does not wait for the
// handlers; a later Close does.
func (c *Bus) Kill() {
	c.killed.Store(true)
	for _, k := range c.end() {
		k.kill()
	}
}

// end rejects further calls and returns the consumers. They stay in the map for a Close after a
// Kill.
func (c *Bus) end() []*consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	ks := make([]*consumer, 0, len(c.consumers))
	for k := range c.consumers {
		ks = append(ks, k)
	}
	return ks
}

func (c *Bus) usable(ctx context.Context) error {
	select {
	case <-c.done:
		return bus.ErrClosed
	default:
		return ctx.Err()
	}
}

var errUnavailable = errors.New("the broker is unavailable")
