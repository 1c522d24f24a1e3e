package pulsarbus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

// partitionedClient is a client whose later subscriptions wait, as those of the real one do while a
// partition is away.
type partitionedClient struct {
	pulsar.Client

	made    chan *madeConsumer // each consumer, when its creation begins
	waiting atomic.Bool        // subscriptions wait from now on
	release chan struct{}      // ends one such wait
}

func (c *partitionedClient) Subscribe(o pulsar.ConsumerOptions) (pulsar.Consumer, error) {
	made := &madeConsumer{options: o}
	wait := c.waiting.Load()
	c.made <- made
	if wait {
		<-c.release
	}
	return made, nil
}

func (c *partitionedClient) TopicPartitions(string) ([]string, error) { return nil, nil }
func (c *partitionedClient) Close()                                   {}

// madeConsumer is a consumer of partitionedClient. It counts acknowledgements.
type madeConsumer struct {
	pulsar.Consumer

	options pulsar.ConsumerOptions
	acked   atomic.Int64
	closed  atomic.Bool
}

func (c *madeConsumer) Ack(pulsar.Message) error {
	c.acked.Add(1)
	return nil
}

func (c *madeConsumer) Close() { c.closed.Store(true) }

// deliver delivers a message, and returns when all is idle again.
func (c *madeConsumer) deliver(t *testing.T, payload string) {
	t.Helper()
	m := pulsar.ConsumerMessage{Consumer: c, Message: madeMessage{payload: payload}}
	select {
	case c.options.MessageChannel <- m:
	default:
		require.Fail(t, "the queue is full, no worker takes messages")
	}
	synctest.Wait()
}

type madeMessage struct {
	pulsar.Message

	payload string
}

func (m madeMessage) Key() string                   { return "" }
func (m madeMessage) Payload() []byte               { return []byte(m.payload) }
func (m madeMessage) Properties() map[string]string { return nil }
func (m madeMessage) EventTime() time.Time          { return time.UnixMilli(1) }

// partitionStates is an admin API that knows a topic with a partition for each state: the names of
// its consumers, or the status of the answer for the partition alone.
type partitionStates struct {
	mu     sync.Mutex
	states []any
}

func (s *partitionStates) set(states ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states = states
}

func (s *partitionStates) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	topic := "/base/persistent/t/n/tasks"
	code, answer := http.StatusOK, any(nil)
	switch path := r.URL.Path; path {
	case topic + "/partitions":
		answer = map[string]any{"partitions": len(s.states)}
	case topic + "/partitioned-stats":
		partitions := map[string]any{}
		for i, state := range s.states {
			if name, ok := state.(string); ok {
				partitions[fmt.Sprintf("persistent://t/n/tasks-partition-%d", i)] = statsWith(name)
			}
		}
		answer = map[string]any{"partitions": partitions}
	default:
		var i int
		if _, err := fmt.Sscanf(path, topic+"-partition-%d/stats", &i); err != nil {
			return nil, fmt.Errorf("unexpected request for %s: %w", path, err)
		}
		if c, ok := s.states[i].(int); ok {
			code = c
		} else {
			answer = statsWith(s.states[i].(string))
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(body))),
	}, nil
}

// statsWith are the statistics of a partition with one consumer.
func statsWith(name string) any {
	consumers := []any{map[string]any{"consumerName": name}}
	return map[string]any{
		"subscriptions": map[string]any{"executors": map[string]any{"consumers": consumers}},
	}
}

// newBusOf returns a bus with a client and an admin API.
func newBusOf(t *testing.T, c pulsar.Client, admin http.RoundTripper) *Bus {
	t.Helper()
	b := &Bus{
		client:     c,
		rest:       &rest{base: "http://broker/base", client: &http.Client{Transport: admin}},
		config:     Config{Tenant: "t", Namespace: "n"},
		log:        zerolog.Nop(),
		connection: new(connectionError),
		prepared:   make(chan struct{}),
		consumers:  make(map[bus.Consumer]struct{}),
	}
	close(b.prepared)
	b.ctx, b.cancel = context.WithCancel(t.Context())
	return b
}

// TestPartitionAway checks that the others go on while a partition has no broker, also where the
// client has begun to recreate the consumer.
func TestPartitionAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency = 2
		client := &partitionedClient{
			made:    make(chan *madeConsumer, 9),
			release: make(chan struct{}),
		}
		states := new(partitionStates)
		b := newBusOf(t, client, states)
		var mu sync.Mutex
		handled := map[string]int{}
		subscribed, err := b.Subscribe(t.Context(), bus.Subscription{
			Topic: "tasks", Name: "executors", Concurrency: concurrency, MaxBatch: 1, Prefetch: 10,
		}, func(_ context.Context, batch []bus.Message) []error {
			mu.Lock()
			defer mu.Unlock()
			handled[string(batch[0].Payload)]++
			return nil
		})
		require.NoError(t, err)
		first := <-client.made
		name := first.options.Name
		require.Equal(t, neverDiscovers, first.options.AutoDiscoveryPeriod, "see consumer.open")
		client.waiting.Store(true)

		states.set(name, name, http.StatusServiceUnavailable)
		subscribed.(*consumer).reconnectSignal.reconnectBackoff()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, client.made, "a partition whose state is unknown")

		states.set(name, name, "another")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, client.made, 1, "a partition without the consumer")
		second := <-client.made
		for range 3 {
			second.deliver(t, "new")
		}
		for range 5 * concurrency {
			first.deliver(t, "old")
		}
		require.Equal(t, map[string]int{"old": 5 * concurrency}, handled)
		require.EqualValues(t, 5*concurrency, first.acked.Load())

		states.set(name, name, name)
		client.release <- struct{}{}
		synctest.Wait()
		require.True(t, first.closed.Load())
		second.deliver(t, "new")
		require.Equal(t, map[string]int{"old": 5 * concurrency, "new": 4}, handled)
		require.EqualValues(t, 4, second.acked.Load())
		require.EqualValues(t, 5*concurrency, first.acked.Load())
		require.NoError(t, b.Close())
		require.True(t, second.closed.Load())
	})
}

// TestConnectedToPartitions checks what the admin API says of the partitions of a consumer.
func TestConnectedToPartitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states  []any
		known   bool
		unknown bool
	}{
		"all":                {states: []any{"me", "me", "me"}, known: true},
		"not on one":         {states: []any{"me", "other", "me"}},
		"one does not exist": {states: []any{"me", "me", http.StatusNotFound}},
		"one is away":        {states: []any{"me", http.StatusInternalServerError, "me"}, unknown: true},
		"one is away and another lost": {
			states: []any{"other", http.StatusNotFound, http.StatusServiceUnavailable}, unknown: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := new(partitionStates)
			states.set(c.states...)
			b := newBusOf(t, nil, states)
			known, err := b.isConnected(t.Context(), "tasks", "me")
			require.Equal(t, c.unknown, err != nil, err)
			require.Equal(t, c.known, known)
		})
	}
}
