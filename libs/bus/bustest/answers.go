package bustest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/testenv"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// failing returns a handler that records its messages. It fails the message with payload bad with
// err, the given number of times.
func failing(r *record, bad []byte, times int, err error) bus.Handler {
	return func(_ context.Context, batch []bus.Message) []error {
		r.note(batch)
		errs := make([]error, len(batch))
		for i, m := range batch {
			if bytes.Equal(m.Payload, bad) && len(r.times(bad)) <= times {
				errs[i] = err
			}
		}
		return errs
	}
}

func errorIsRedelivered(t *testing.T, b Broker) {
	const failures = 4
	p := process(t, b)
	var got record
	subscribe(t, b.Open(t), onSlices(), failing(&got, id(0), failures, errors.New("not now")))
	publish(t, p, bus.Slices, 0, 1, 1)
	eventually(
		t,
		"the message is handled in the end",
		func() bool { return len(got.times(id(0))) > failures },
	)
	at := got.times(id(0))
	for i := 1; i <= failures; i++ {
		want, gap := bus.Backoff(i), at[i].Sub(at[i-1])
		require.GreaterOrEqual(t, gap, want*7/10, "gap %d", i)
		require.LessOrEqual(t, gap, want+3*time.Second, "gap %d", i)
	}
	drained(t, p, bus.Slices, bus.SubTriggers)
	n, err := p.Backlog(t.Context(), bus.TasksDead, listeners)
	require.NoError(t, err)
	require.Zero(t, n, "redeliveries never make a dead letter")
}

func partOfBatchIsRedelivered(t *testing.T, b Broker) {
	p := process(t, b)
	var got record
	s := onWork()
	s.MaxWait = 100 * time.Millisecond
	subscribe(t, b.Open(t), s, failing(&got, id(3), 2, errors.New("not now")))
	publish(t, p, work, 0, 10, 10)
	eventually(
		t,
		"the bad one is handled at last",
		func() bool { return len(got.times(id(3))) == 3 },
	)
	drained(t, p, work, bus.SubExecutors)
	require.Equal(t, 12, got.deliveries(), "the nine others are delivered once")
}

// deadLetters collects the dead letters.
func deadLetters(t *testing.T, p bus.Bus) func() []bus.Message {
	var mu sync.Mutex
	var dead []bus.Message
	s := onWork()
	s.Topic, s.Name, s.DeadLetter = bus.TasksDead, listeners, ""
	subscribe(t, p, s, func(_ context.Context, batch []bus.Message) []error {
		mu.Lock()
		defer mu.Unlock()
		dead = append(dead, batch...)
		return nil
	})
	return func() []bus.Message {
		mu.Lock()
		defer mu.Unlock()
		return append([]bus.Message(nil), dead...)
	}
}

func permanentIsDeadLetter(t *testing.T, b Broker) {
	p := process(t, b)
	dead := deadLetters(t, p)
	var got record
	err := bus.Permanent(errors.New("cannot be read"))
	subscribe(t, b.Open(t), onWork(), failing(&got, id(1), 1000, err))
	publish(t, p, work, 0, 1, 1)
	require.NoError(t, p.Publish(t.Context(), work, bus.Message{
		Key: "the key", Payload: id(1), Properties: map[string]string{bus.PropApp: "shop"},
	}))
	eventually(t, "a dead letter", func() bool { return len(dead()) > 0 })
	drained(t, p, work, bus.SubExecutors)
	require.Len(t, dead(), 1)
	m := dead()[0]
	require.Equal(t, "the key", m.Key)
	require.Equal(t, map[string]string{
		bus.PropApp: "shop", bus.PropReason: "cannot be read", bus.PropTopic: string(work),
	}, m.Properties)
	var task carillonv1.DeadTask
	require.NoError(t, proto.Unmarshal(m.Payload, &task))
	require.Equal(t, id(1), task.GetRaw())
	require.Equal(t, "cannot be read", task.GetReason())
	require.Len(t, got.times(id(1)), 1, "never redelivered")
}

func permanentIsDropped(t *testing.T, b Broker) {
	p := process(t, b)
	var got record
	s := onWork()
	s.DeadLetter = ""
	subscribe(
		t,
		b.Open(t),
		s,
		failing(&got, id(0), 1000, bus.Permanent(errors.New("cannot be read"))),
	)
	publish(t, p, work, 0, 2, 1)
	got.reaches(t, 2)
	drained(t, p, work, bus.SubExecutors)
	require.Len(t, got.times(id(0)), 1)
}

func panicIsRedelivered(t *testing.T, b Broker) {
	p := process(t, b)
	var got record
	subscribe(t, b.Open(t), onWork(), func(_ context.Context, batch []bus.Message) []error {
		got.note(batch)
		if len(got.times(id(0))) <= 2 {
			panic("twice")
		}
		return nil
	})
	publish(t, p, work, 0, 1, 1)
	eventually(
		t,
		"the message is handled in the end",
		func() bool { return len(got.times(id(0))) == 3 },
	)
	drained(t, p, work, bus.SubExecutors)
}

func bounded(t *testing.T, b Broker) {
	const total = 40
	p := process(t, b)
	s := onSlices()
	s.Concurrency, s.MaxBatch, s.Prefetch = 2, 3, 4
	var held, got record
	var calls testenv.Concurrency
	subscribe(t, b.Open(t), s, func(ctx context.Context, batch []bus.Message) []error {
		calls.Begin()
		defer calls.End()
		return stuck(&held)(ctx, batch)
	})
	publish(t, p, bus.Slices, 0, total, 1)
	eventually(t, "all handlers are busy", func() bool { return calls.Now() == 2 })

	subscribe(t, b.Open(t), s, got.handle)
	got.reaches(t, total-2*3-4)
	require.Equal(t, 2, calls.Most())
	require.LessOrEqual(t, held.largest(), 3)
	require.LessOrEqual(t, got.largest(), 3)
	require.LessOrEqual(t, held.distinct(), 2*3)
}

func batchesFill(t *testing.T, b Broker) {
	p := process(t, b)
	var got record
	s := onWork()
	s.Concurrency, s.MaxWait = 1, 3*time.Second
	subscribe(t, b.Open(t), s, got.handle)
	start := time.Now()
	publish(t, p, work, 0, 25, 1)
	got.reaches(t, 25)
	require.Equal(t, 10, got.largest(), "the first two batches fill, the third does not")
	require.GreaterOrEqual(t, time.Since(start), s.MaxWait)
}
