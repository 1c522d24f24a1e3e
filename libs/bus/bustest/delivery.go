package bustest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

func storedBeforeConsumer(t *testing.T, b Broker) {
	p := process(t, b)
	publish(t, p, work, 0, 200, 50)
	var got record
	subscribe(t, b.Open(t), onWork(), got.handle)
	got.reaches(t, 200)
	drained(t, p, work, bus.SubExecutors)
}

func deliveredToEachSubscription(t *testing.T, b Broker) {
	p := b.Open(t)
	require.NoError(
		t,
		p.Setup(
			t.Context(),
			[]bus.TopicSpec{{Topic: bus.Outcomes, Subscriptions: []string{"one", "two"}}},
		),
	)
	publish(t, p, bus.Outcomes, 0, 50, 10)
	for _, name := range []string{"one", "two"} {
		var got record
		s := onWork()
		s.Topic, s.Name = bus.Outcomes, name
		subscribe(t, p, s, got.handle)
		got.reaches(t, 50)
	}
}

func redeliveredWhenConsumersDie(t *testing.T, b Broker) {
	p := process(t, b)
	var all record
	live := b.Open(t)
	for i := range 4 { // each consumer dies while it handles messages
		var held record
		victim := b.Open(t)
		subscribe(t, victim, onWork(), stuck(&held))
		publish(t, p, work, 100*i, 100, 10)
		eventually(
			t,
			"the consumer to be killed has messages",
			func() bool { return held.distinct() > 0 },
		)
		b.Kill(victim)
	}
	subscribe(t, live, onWork(), all.handle)
	all.reaches(t, 400)
	drained(t, p, work, bus.SubExecutors)
}

func redeliveredWhenHandlersFail(t *testing.T, b Broker) {
	const publishers, each = 4, 1000
	p := process(t, b)
	var done record
	flaky := func(_ context.Context, batch []bus.Message) []error {
		if rand.IntN(100) == 0 {
			panic("now and then")
		}
		errs := make([]error, len(batch))
		for i, m := range batch {
			if rand.IntN(20) == 0 {
				errs[i] = errors.New("now and then")
				continue
			}
			done.note([]bus.Message{m})
		}
		return errs
	}
	subscribe(t, b.Open(t), onWork(), flaky)
	subscribe(t, b.Open(t), onWork(), flaky)
	var wg sync.WaitGroup
	for i := range publishers {
		wg.Go(func() { publish(t, p, work, i*each, each, 100) })
	}
	wg.Wait()
	done.reaches(t, publishers*each)
	drained(t, p, work, bus.SubExecutors)
}

func unconfirmedIsReported(t *testing.T, b Broker) {
	p := process(t, b)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Publish(ended, work, bus.Message{Payload: id(1)}))
	require.NoError(t, p.Publish(t.Context(), work), "nothing to publish")

	publish(t, p, work, 2, 1, 1)
	b.Kill(p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, p.Publish(ctx, work, bus.Message{Payload: id(3)}))
}

func sharedIsDivided(t *testing.T, b Broker) {
	p := process(t, b)
	s := onWork()
	s.Concurrency, s.MaxBatch = 1, 1
	var first, second, all record
	for _, r := range []*record{&first, &second} {
		subscribe(t, b.Open(t), s, func(ctx context.Context, batch []bus.Message) []error {
			all.note(batch)
			// gives the other consumer time to run on a busy machine.
			<-time.After(2 * time.Millisecond)
			return r.handle(ctx, batch)
		})
	}
	publish(t, p, work, 0, 200, 1)
	all.reaches(t, 200)
	require.Equal(t, 200, all.deliveries(), "without failures nothing is delivered twice")
	require.GreaterOrEqual(
		t,
		min(first.distinct(), second.distinct()),
		20,
		"they divide the messages",
	)
	drained(t, p, work, bus.SubExecutors)

	var late record
	subscribe(t, b.Open(t), s, late.handle)
	require.Never(t, func() bool { return late.distinct() > 0 }, quiet, tick)
}

func closeReturnsMessages(t *testing.T, b Broker) {
	p := process(t, b)
	var held, got record
	c := subscribe(t, b.Open(t), onWork(), stuck(&held))
	publish(t, p, work, 0, 100, 10)
	eventually(t, "the first consumer has messages", func() bool { return held.distinct() > 0 })
	subscribe(t, b.Open(t), onWork(), got.handle)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "closed twice")
	seen := held.deliveries()
	got.reaches(t, 100)
	require.Equal(t, seen, held.deliveries(), "no handler runs after Close")
	drained(t, p, work, bus.SubExecutors)
}

func killReturnsMessages(t *testing.T, b Broker) {
	p := process(t, b)
	var held, got record
	release := make(chan struct{})
	victim := b.Open(t)
	subscribe(t, victim, onSlices(), func(_ context.Context, batch []bus.Message) []error {
		held.note(batch)
		<-release
		return nil // an acknowledgement that must not reach the broker
	})
	publish(t, p, bus.Slices, 0, 3, 1)
	held.reaches(t, 1)
	b.Kill(victim)
	close(release)
	start := time.Now()
	subscribe(t, b.Open(t), onSlices(), got.handle)
	got.reaches(t, 3)
	require.Less(t, time.Since(start), patience/2)
	drained(t, p, bus.Slices, bus.SubTriggers)
}

func contentIsUnchanged(t *testing.T, b Broker) {
	p := process(t, b)
	sent := []bus.Message{
		{
			Key:        "29000000:3",
			Payload:    []byte{0, 0xff, 1},
			Properties: map[string]string{bus.PropSlice: "29000000:3:1", "é": "ü"},
		},
		{Payload: []byte("no key")},
		{Key: "set", Payload: []byte{1}, Published: time.UnixMilli(1_700_000_000_123)},
		{Key: "no payload", Payload: []byte{}},
	}
	for _, topic := range []bus.Topic{work, bus.Slices} {
		var mu sync.Mutex
		got := make(map[string]bus.Message)
		s := onSlices()
		if topic == work {
			s = onWork()
		}
		subscribe(t, b.Open(t), s, func(_ context.Context, batch []bus.Message) []error {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range batch {
				got[m.Key] = m
			}
			return nil
		})
		before := time.Now()
		own := append([]byte(nil), sent[0].Payload...)
		require.NoError(t, p.Publish(t.Context(), topic, sent...))
		sent[0].Payload[2] = 7 // the publisher may change its memory after Publish
		eventually(t, "all messages", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) == len(sent)
		})
		copy(sent[0].Payload, own)
		for _, m := range sent {
			require.Equal(t, m.Payload, append([]byte{}, got[m.Key].Payload...))
			require.Len(t, got[m.Key].Properties, len(m.Properties))
			for k, v := range m.Properties {
				require.Equal(t, v, got[m.Key].Properties[k])
			}
			if !m.Published.IsZero() {
				require.Equal(t, m.Published.UnixMilli(), got[m.Key].Published.UnixMilli())
				continue
			}
			require.WithinRange(
				t,
				got[m.Key].Published,
				before.Add(-2*time.Second),
				time.Now().Add(2*time.Second),
			)
		}
	}
}

func closedReturnsErrClosed(t *testing.T, b Broker) {
	p := process(t, b)
	require.NoError(t, p.Ping(t.Context()))
	var got record
	subscribe(t, p, onWork(), got.handle)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "closed twice")
	require.ErrorIs(t, p.Publish(t.Context(), work, bus.Message{Payload: id(1)}), bus.ErrClosed)
	_, err := p.Subscribe(t.Context(), onWork(), got.handle)
	require.ErrorIs(t, err, bus.ErrClosed)
	_, err = p.Broadcast(t.Context(), work, func(context.Context, bus.Message) {})
	require.ErrorIs(t, err, bus.ErrClosed)
	require.ErrorIs(t, p.Ping(t.Context()), bus.ErrClosed)
}
