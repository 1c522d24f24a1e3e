// Package membus is the embedded message bus: a broker in the memory of one process, shared by any
// number of clients. It keeps the promises of package bus for the life of the process, and can be
// told to be worse (Faults), to be away (Pause), and to lose a client as SIGKILL would (Bus.Kill).
//
// Nobody in an embedded process consumes bus.TasksDead, and a topic that fills up blocks its
// publishers: so of that topic only the newest messages are kept (Options.MaxDead). The store has
// the outcomes that they tell of.
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

// The limits of a broker that names none.
const (
	DefaultMaxMessages = 1 << 17
	DefaultMaxDead     = 10_000
)

// Options of a broker. The zero value is a well-behaved broker with the default limits that logs
// nothing.
type Options struct {
	// MaxMessages: per subscription: messages not acknowledged; Publish waits for room. 0:
	// DefaultMaxMessages.
	MaxMessages int
	// MaxDead: per subscription of bus.TasksDead: the newest are kept, no Publish waits. 0:
	// DefaultMaxDead.
	MaxDead int
	Faults  Faults         // how it shall misbehave
	Log     zerolog.Logger // the zero value writes nothing
}

// Broker holds the topics. It starts no goroutine of its own: consumers have theirs, and end them.
type Broker struct {
	opts   Options
	faults atomic.Pointer[Faults]
	paused atomic.Bool

	mu     sync.Mutex // guards the maps and closed; taken before any topic's lock
	topics map[bus.Topic]*topic
	buses  map[*Bus]struct{}
	closed bool
}

// NewBroker returns an empty broker.
func NewBroker(o Options) *Broker {
	if o.MaxMessages <= 0 {
		o.MaxMessages = DefaultMaxMessages
	}
	if o.MaxDead <= 0 {
		o.MaxDead = DefaultMaxDead
	}
	b := &Broker{opts: o, topics: make(map[bus.Topic]*topic), buses: make(map[*Bus]struct{})}
	b.faults.Store(&o.Faults)
	return b
}

// Bus returns the bus of one more client. The name appears in the log.
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

// SetFaults changes how the broker misbehaves from now on; the seed stays that of the options.
func (b *Broker) SetFaults(f Faults) { b.faults.Store(&f) }

// Pause makes the broker be away: no message is delivered, Publish and Ping wait until ctx ends or
// Resume is called. Handlers that run go on, and their answers count.
func (b *Broker) Pause() { b.paused.Store(true) }

// Resume ends a Pause.
func (b *Broker) Resume() {
	b.paused.Store(false)
	for _, t := range b.all() {
		t.resume()
	}
}

// Purge does to a topic what deleting it and making it anew does: its subscriptions lose every
// message that waits, and what handlers have in hand is not delivered again, whatever they answer.
func (b *Broker) Purge(name bus.Topic) { b.topic(name).purge() }

// Close closes every client and forgets every message.
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

// topic returns a topic, made where it is missing: an embedded broker needs no set-up for a topic
// without subscriptions.
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
	if name == bus.TasksDead {
		t.keepNewest, t.limit = true, b.opts.MaxDead
	}
	b.topics[name] = t
	return t
}

// Bus is what one client has of a broker. It keeps the contract bus.Bus.
type Bus struct {
	broker *Broker
	log    zerolog.Logger
	done   chan struct{} // closed by Close and Kill

	mu        sync.Mutex // guards consumers and closed; never taken under a topic's lock
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

// Setup implements bus.Admin. Partitions, schemas and retention mean nothing here.
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

// Kill ends the client as SIGKILL would: what it had not acknowledged is at once delivered to
// others, and nothing that its handlers do from now on reaches the broker. It does not wait for
// these; Close, called afterwards, does.
func (c *Bus) Kill() {
	c.killed.Store(true)
	for _, k := range c.end() {
		k.kill()
	}
}

// end refuses further work and returns the consumers there are. They stay in the map, for a Close
// after a Kill.
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

var errUnavailable = errors.New("the broker is away")
