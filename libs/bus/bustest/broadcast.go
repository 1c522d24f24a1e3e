package bustest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

func broadcastReachesAll(t *testing.T, b Broker) {
	p := b.Open(t)
	require.NoError(t, p.Setup(t.Context(), []bus.TopicSpec{{Topic: bus.TimersChanged}}))
	publish(t, p, bus.TimersChanged, 0, 10, 1) // before there is a consumer
	var got [3]record
	var panicked sync.Once
	join := func(r *record) {
		_, err := b.Open(t).
			Broadcast(t.Context(), bus.TimersChanged, func(_ context.Context, m bus.Message) {
				r.note([]bus.Message{m})
				panicked.Do(func() { panic("the first message of all") })
			})
		require.NoError(t, err)
	}
	join(&got[0])
	join(&got[1])
	publish(t, p, bus.TimersChanged, 100, 50, 5)
	got[0].reaches(t, 50)
	got[1].reaches(t, 50)
	join(&got[2])
	publish(t, p, bus.TimersChanged, 200, 20, 5)
	for i, want := range []int{70, 70, 20} {
		got[i].reaches(t, want)
		require.Equal(t, want, got[i].distinct(), "only what was published after it joined")
		require.Empty(t, got[i].times(id(0)))
	}
}

func setupIsIdempotent(t *testing.T, b Broker) {
	p := b.Open(t)
	var wg sync.WaitGroup
	for range 3 {
		other := b.Open(t)
		wg.Go(func() {
			for range 2 {
				if err := other.Setup(t.Context(), bus.Topics(2)); err != nil {
					t.Errorf("set-up: %v", err)
				}
			}
		})
	}
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	publish(t, p, work, 0, 100, 5) // while the others still run Setup
	wg.Wait()
	publish(t, p, work, 100, 100, 5)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	var got record
	subscribe(t, b.Open(t), onWork(), got.handle)
	got.reaches(t, 200)
}
