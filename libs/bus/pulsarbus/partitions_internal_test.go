package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

func TestPartitionsOfMessages(t *testing.T) {
	t.Parallel()
	p := &partitions{producers: make([]pulsar.Producer, 4)}
	without := make([]bus.Message, batchMessages+1)
	first := p.of(without)
	for i := range batchMessages {
		require.Equal(t, first[0], first[i], "a batch stays together")
	}
	require.NotEqual(t, first[0], first[batchMessages], "the next batch goes elsewhere")

	calls := make(map[int]int)
	for range 40 {
		calls[p.of(without[:1])[0]]++
	}
	require.Equal(t, map[int]int{0: 10, 1: 10, 2: 10, 3: 10}, calls, "calls take turns")

	keyed := make([]bus.Message, 100)
	for i := range keyed {
		keyed[i].Key = strconv.Itoa(i % 50)
	}
	to := p.of(keyed)
	require.Equal(t, to[:50], to[50:], "a key has one partition")
	require.Subset(t, to, []int{0, 1, 2, 3})

	one := &partitions{producers: make([]pulsar.Producer, 1)}
	require.Equal(t, make([]int, len(keyed)), one.of(keyed))
}

// TestKeyHash compares with values of Java's String.hashCode, without a sign.
func TestKeyHash(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint32{
		"":                   0,
		"a":                  97,
		"hello":              99162322,
		"hello world":        1794106052,
		"polygenelubricants": 1 << 31,
	} {
		require.Equal(t, want, keyHash(key), key)
	}
	p := &partitions{producers: make([]pulsar.Producer, 3)}
	require.Equal(t, []int{2}, p.of([]bus.Message{{Key: "polygenelubricants"}}), "2^31 mod 3")
}

// refusingClient cannot create the producer of one partition. Like the real client, it returns a nil
// pointer then, which is not a nil interface.
type refusingClient struct {
	pulsar.Client

	refused string
}

var errRefused = errors.New("refused")

func (c *refusingClient) CreateProducer(o pulsar.ProducerOptions) (pulsar.Producer, error) {
	if strings.HasSuffix(o.Topic, c.refused) {
		return (*closedProducer)(nil), errRefused
	}
	return c.Client.CreateProducer(o) //nolint:wrapcheck // as the client
}

// closedProducer panics when it is a nil pointer.
type closedProducer struct {
	pulsar.Producer

	closed bool
}

func (p *closedProducer) Close() { p.closed = true }

// TestOnePartitionIsRefused creates the producers of a topic while a broker refuses one of them.
func TestOnePartitionIsRefused(t *testing.T) {
	t.Parallel()
	b := newBus(t, 3)
	through := b.client
	for refused := range 3 {
		b.client = &refusingClient{Client: through, refused: fmt.Sprintf("partition-%d", refused)}
		_, err := b.openPartitions(bus.TasksHigh, nil)
		require.ErrorIs(t, err, errRefused)
	}
	b.client = through
	require.NoError(t, b.Publish(t.Context(), bus.TasksHigh, bus.Message{Payload: []byte("x")}))
}

// TestPublishFlushes publishes one message after another. If calls waited for the client's own looks
// at incomplete batches, each would take flushInterval.
func TestPublishFlushes(t *testing.T) {
	t.Parallel()
	b := newBus(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 100*flushInterval)
	defer cancel()
	for range 200 {
		require.NoError(t, b.Publish(ctx, bus.TasksHigh, bus.Message{Payload: []byte("x")}))
		require.NoError(
			t,
			b.Publish(ctx, bus.TasksHigh, bus.Message{Key: "k", Payload: []byte("x")}),
		)
	}
}

// TestForgottenMessagesBlockNoOther has a producer of the client that has closed itself, and
// forgotten a message whose publisher gave up.
func TestForgottenMessagesBlockNoOther(t *testing.T) {
	t.Parallel()
	b := newBus(t, 1)
	message := bus.Message{Payload: []byte("x")}
	require.NoError(t, b.Publish(t.Context(), bus.TasksHigh, message))
	p := b.producers[bus.TasksHigh]
	p.current.producers[0].Close()
	p.abandoned = &confirmation{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, b.Publish(ctx, bus.TasksHigh, message))
}

// TestAddedPartitionsAreUsed adds partitions while messages are published.
func TestAddedPartitionsAreUsed(t *testing.T) {
	t.Parallel()
	b := newBus(t, 1)
	publish := func() {
		for range 6 {
			require.NoError(
				t,
				b.Publish(t.Context(), bus.TasksLow, bus.Message{Payload: []byte("x")}),
			)
		}
	}
	publish()
	require.NoError(t, b.Setup(t.Context(), bus.Topics(3)))
	p := b.producers[bus.TasksLow]
	old := p.current
	require.Len(t, old.producers, 1)

	var publishing sync.WaitGroup
	publishing.Go(publish)
	p.mu.Lock()
	p.looked = time.Now().Add(-2 * growInterval)
	p.mu.Unlock()
	require.Eventually(t, func() bool {
		publish()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.current.producers) == 3
	}, time.Minute, 10*time.Millisecond)
	publishing.Wait()
	publish()
	for _, one := range p.current.producers {
		require.NotEqual(t, int64(-1), one.LastSequenceID(), "each partition got messages")
	}

	b.grow(p, old) // another look, which began before the first ended
	require.Len(t, p.current.producers, 3)
	publish()
}

func newBus(t *testing.T, partitions int) *Bus {
	t.Helper()
	place := testenv.Pulsar(t)
	b, err := New(Options{
		Config: Config{
			URL:       place.URL,
			AdminURL:  place.AdminURL,
			Tenant:    place.Tenant,
			Namespace: place.Namespace,
		},
		Log: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Setup(t.Context(), bus.Topics(partitions)))
	return b
}
