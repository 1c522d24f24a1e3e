package membus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
)

// seen collects payloads in the order of arrival.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) handle(_ context.Context, batch []bus.Message) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range batch {
		s.all = append(s.all, string(m.Payload))
	}
	return nil
}

func (s *seen) count() (all, distinct int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := make(map[string]bool)
	for _, p := range s.all {
		set[p] = true
	}
	return len(s.all), len(set)
}

var sub = bus.Subscription{
	Topic:       bus.TasksNormal,
	Name:        bus.SubExecutors,
	Concurrency: 1,
	MaxBatch:    10,
	Prefetch:    1,
	DeadLetter:  bus.TasksDead,
}

func messages(n int) []bus.Message {
	msgs := make([]bus.Message, n)
	for i := range msgs {
		msgs[i].Payload = fmt.Appendf(nil, "%06d", i)
	}
	return msgs
}

// run publishes n messages to a broker with the given faults, in a bubble. It returns the messages
// received within an hour.
func run(t *testing.T, f membus.Faults, n int) (got *seen, took time.Duration, err error) {
	got = new(seen)
	synctest.Test(t, func(t *testing.T) {
		b := membus.NewBroker(membus.Options{Faults: f})
		p := b.Bus("a")
		require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
		_, serr := p.Subscribe(t.Context(), sub, got.handle)
		require.NoError(t, serr)
		start := time.Now()
		err = p.Publish(t.Context(), bus.TasksNormal, messages(n)...)
		for {
			synctest.Wait()
			left, lerr := p.Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
			require.NoError(t, lerr)
			if left == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		took = time.Since(start)
		require.NoError(t, b.Close())
	})
	return got, took, err
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const n = 1000
	tests := []struct {
		name   string
		faults membus.Faults
		check  func(t *testing.T, all, distinct int, took time.Duration, err error)
	}{
		{
			"none",
			membus.Faults{},
			func(t *testing.T, all, distinct int, took time.Duration, err error) {
				require.NoError(t, err)
				require.Equal(t, []int{n, n}, []int{all, distinct})
				require.Zero(t, took)
			},
		},
		{
			"duplicate",
			membus.Faults{Duplicate: 0.1},
			func(t *testing.T, all, distinct int, _ time.Duration, err error) {
				require.NoError(t, err)
				require.Equal(t, n, distinct)
				require.InDelta(t, 1.1*n, all, 40)
			},
		},
		{
			"delay",
			membus.Faults{Delay: 0.5, MaxDelay: time.Second},
			func(t *testing.T, all, distinct int, took time.Duration, err error) {
				require.NoError(t, err)
				require.Equal(t, []int{n, n}, []int{all, distinct})
				require.InDelta(t, time.Second, took, float64(100*time.Millisecond))
			},
		},
		{
			"drop",
			membus.Faults{Drop: 0.2},
			func(t *testing.T, all, distinct int, _ time.Duration, err error) {
				require.NoError(t, err)
				require.Equal(t, all, distinct)
				require.InDelta(t, 0.8*n, all, 60)
			},
		},
		{
			"fail",
			membus.Faults{FailPublish: 1},
			func(t *testing.T, all, _ int, _ time.Duration, err error) {
				require.Error(t, err)
				require.Zero(t, all)
			},
		},
		{
			"fail after",
			membus.Faults{FailAfterPublish: 1},
			func(t *testing.T, all, _ int, _ time.Duration, err error) {
				require.Error(t, err)
				require.Equal(t, n, all)
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.faults.Seed = 42
			got, took, err := run(t, test.faults, n)
			all, distinct := got.count()
			test.check(t, all, distinct, took, err)
		})
	}
}

func TestReorder(t *testing.T) {
	t.Parallel()
	b := membus.NewBroker(membus.Options{Faults: membus.Faults{Seed: 1, Reorder: 0.5}})
	defer func() { require.NoError(t, b.Close()) }()
	p := b.Bus("a")
	require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
	require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(100)...))
	var got seen
	_, err := p.Subscribe(t.Context(), sub, got.handle)
	require.NoError(t, err)
	require.Eventually(
		t,
		func() bool { all, _ := got.count(); return all == 100 },
		10*time.Second,
		time.Millisecond,
	)
	got.mu.Lock()
	defer got.mu.Unlock()
	require.False(t, slices.IsSorted(got.all))
}

func TestFullTopicBlocksPublishers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.NewBroker(membus.Options{MaxMessages: 10})
		p := b.Bus("a")
		require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
		require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(10)...))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := p.Publish(ctx, bus.TasksNormal, messages(1)...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, bus.ErrFull)

		published := make(chan error)
		go func() { published <- p.Publish(t.Context(), bus.TasksNormal, messages(35)...) }()
		synctest.Wait()
		var got seen
		_, err = p.Subscribe(t.Context(), sub, got.handle)
		require.NoError(t, err)
		require.NoError(t, <-published)
		synctest.Wait()
		all, _ := got.count()
		require.Equal(t, 45, all)
		require.NoError(t, b.Close())
	})
}

// TestFullTopicStoresAllOrNone checks that a publisher that gives up at a full topic has stored
// nothing: it repeats all of its messages.
func TestFullTopicStoresAllOrNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.NewBroker(membus.Options{MaxMessages: 80})
		p := b.Bus("a")
		require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
		require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(76)...))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.Publish(ctx, bus.TasksNormal, messages(5)...), bus.ErrFull)
		backlog, err := p.Backlog(t.Context(), bus.TasksNormal, sub.Name)
		require.NoError(t, err)
		require.EqualValues(t, 76, backlog)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = p.Publish(ctx, bus.TasksNormal, messages(11)...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, bus.ErrFull, "a part of a large batch is stored")
		backlog, err = p.Backlog(t.Context(), bus.TasksNormal, sub.Name)
		require.NoError(t, err)
		require.EqualValues(t, 80, backlog)

		b.Pause()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = p.Publish(ctx, bus.TasksNormal, messages(1)...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, bus.ErrFull, "nothing is known about the topic")
		require.NoError(t, b.Close())
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.NewBroker(membus.Options{})
		p := b.Bus("a")
		require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
		require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(5)...))
		b.Pause()
		var got seen
		_, err := p.Subscribe(t.Context(), sub, got.handle)
		require.NoError(t, err)
		require.Error(t, p.Ping(t.Context()))
		published := make(chan error, 1)
		go func() { published <- p.Publish(t.Context(), bus.TasksNormal, messages(7)...) }()
		time.Sleep(time.Hour)
		all, _ := got.count()
		require.Zero(t, all)
		b.Resume()
		require.NoError(t, <-published)
		synctest.Wait()
		all, _ = got.count()
		require.Equal(t, 12, all)
		require.NoError(t, p.Ping(t.Context()))
		require.NoError(t, b.Close())
	})
}

// TestPurge checks that Purge drops waiting messages, messages awaiting redelivery, and messages
// that a handler returns later. Messages published afterwards are delivered.
func TestPurge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.NewBroker(membus.Options{MaxMessages: 10})
		p := b.Bus("a")
		require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
		var got seen
		refuse := func(ctx context.Context, batch []bus.Message) []error {
			_ = got.handle(ctx, batch)
			time.Sleep(time.Second)
			return bus.SameError(len(batch), errors.New("not now"))
		}
		one := sub
		one.MaxBatch = 1
		c, err := p.Subscribe(t.Context(), one, refuse)
		require.NoError(t, err)
		require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(10)...))
		time.Sleep(1500 * time.Millisecond) // one message failed, one is being handled
		b.Purge(bus.TasksNormal)
		left, err := p.Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
		require.NoError(t, err)
		require.EqualValues(t, 1, left)
		time.Sleep(time.Minute)
		left, err = p.Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
		require.NoError(t, err)
		require.Zero(t, left)
		before, _ := got.count()
		require.LessOrEqual(t, before, 3)
		require.NoError(t, c.Close())
		_, err = p.Subscribe(t.Context(), sub, got.handle)
		require.NoError(t, err)
		require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, messages(10)...))
		synctest.Wait()
		all, _ := got.count()
		require.Equal(t, before+10, all)
		require.NoError(t, b.Close())
	})
}

func BenchmarkBus(b *testing.B) {
	broker := membus.NewBroker(membus.Options{})
	defer func() { require.NoError(b, broker.Close()) }()
	p := broker.Bus("a")
	require.NoError(b, p.Setup(b.Context(), bus.Topics(1)))
	done := make(chan int, 1024)
	s := sub
	s.Concurrency, s.MaxBatch = 4, 500
	_, err := p.Subscribe(b.Context(), s, func(_ context.Context, batch []bus.Message) []error {
		done <- len(batch)
		return nil
	})
	require.NoError(b, err)
	msgs := messages(100)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for left := b.N; left > 0; left -= len(msgs) {
			if err := p.Publish(
				b.Context(),
				bus.TasksNormal,
				msgs[:min(left, len(msgs))]...); err != nil {
				b.Error(err)
			}
		}
	}()
	for n := 0; n < b.N; n += <-done {
	}
}
