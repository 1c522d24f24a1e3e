package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus"
)

const (
	// flushInterval is how often the client looks for an incomplete batch. Publish does not wait for
	// that: it flushes. Each look wakes the process, once for each partition, so looks are rare.
	flushInterval = time.Second
	// growInterval is how often a producer looks for added partitions. The client's producer of one
	// partition would look for partitions of that too, see also consumer.open.
	growInterval   = time.Minute
	neverDiscovers = 365 * 24 * time.Hour
)

// partitions has a client's producer for each partition of a topic, so that a call of Publish can
// flush the partitions that it wrote to, at once. The client's producer for a whole topic flushes
// one partition after another.
type partitions struct {
	producers []pulsar.Producer
	turn      atomic.Uint32 // batches without a key so far
}

// of returns the partition of each message. Messages with the same key go to the same partition,
// by the client's default hash. Messages without one stay together, up to a batch, because the
// broker handles a batch with many messages at the cost of one.
func (p *partitions) of(msgs []bus.Message) []int {
	out := make([]int, len(msgs))
	if len(p.producers) == 1 {
		return out
	}
	n := uint32(len(p.producers)) //nolint:gosec // a topic has few partitions
	turn := int(p.turn.Add(1) % n)
	without := 0
	for i := range msgs {
		if key := msgs[i].Key; key != "" {
			out[i] = int(keyHash(key) % n)
			continue
		}
		if without > 0 && without%batchMessages == 0 {
			turn = int(p.turn.Add(1) % n)
		}
		without++
		out[i] = turn
	}
	return out
}

// keyHash is the hash by which the client routes keys by default: that of Java's strings. So a
// process routes them as one of an earlier release does.
func keyHash(key string) (h uint32) {
	for i := range len(key) {
		h = 31*h + uint32(key[i]) //nolint:mnd // the multiplier of that hash
	}
	return h
}

// flush sends the incomplete batch of a partition. It returns when that is confirmed or ctx ends.
// Whether it failed shows in the answers for the messages.
func (p *partitions) flush(ctx context.Context, partition int) {
	// The client panics if its producer closes during the call.
	defer func() { _ = recover() }()
	_ = p.producers[partition].FlushWithCtx(ctx)
}

// areGone reports whether a producer has closed itself, because its topic is gone.
func (p *partitions) areGone() bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // the answer comes at once
	for _, one := range p.producers {
		if isClosed(ended, one) {
			return true
		}
	}
	return false
}

func isClosed(ctx context.Context, p pulsar.Producer) (closed bool) {
	// The client panics if its producer closes during the call.
	defer func() { closed = closed || recover() != nil }()
	return errors.Is(p.FlushWithCtx(ctx), pulsar.ErrProducerClosed)
}

func (p *partitions) close() {
	for _, one := range p.producers {
		one.Close()
	}
}

// openPartitions creates the producers of a topic's partitions, after those that exist.
func (b *Bus) openPartitions(topic bus.Topic, have []pulsar.Producer) (*partitions, error) {
	names, err := b.client.TopicPartitions(b.full(topic))
	if err != nil {
		return nil, fmt.Errorf("looking up the partitions: %w", err)
	}
	all := make([]pulsar.Producer, max(len(names), len(have)))
	copy(all, have)
	var eg errgroup.Group
	for i := len(have); i < len(names); i++ {
		eg.Go(func() error {
			made, err := b.client.CreateProducer(b.producerOptions(topic, names[i]))
			if err == nil { // with an error, the client returns a producer that is not one
				all[i] = made
			}
			return err //nolint:wrapcheck // the caller names the topic
		})
	}
	if err := eg.Wait(); err != nil {
		for _, made := range all[len(have):] {
			if made != nil {
				made.Close()
			}
		}
		return nil, err //nolint:wrapcheck // see above
	}
	return &partitions{producers: all}, nil
}

// grow adds the producers of partitions that the topic got since. Calls that use the old list go on
// with it. If the look-up fails, or the producers were replaced meanwhile, the next one finds them.
func (b *Bus) grow(p *producer, old *partitions) {
	grown, err := b.openPartitions(p.topic, old.producers)
	if err != nil || len(grown.producers) == len(old.producers) {
		return
	}
	p.mu.Lock()
	current := p.current == old
	if current {
		p.current = grown
	}
	p.mu.Unlock()
	if !current {
		for _, one := range grown.producers[len(old.producers):] {
			one.Close()
		}
	}
}
