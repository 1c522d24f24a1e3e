package membus_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
)

// TestBroadcastThatMeetsCloseLeavesNothing closes clients that begin to listen. A subscription that
// nobody reads would fill, and then no publisher could go on.
func TestBroadcastThatMeetsCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	b := membus.NewBroker(membus.Options{MaxMessages: 1})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	publisher := b.Bus("publisher")
	for range 20_000 {
		c := b.Bus("listener")
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = c.Broadcast(
				t.Context(),
				bus.TimersChanged,
				func(context.Context, bus.Message) {},
			)
		})
		both.Go(func() { _ = c.Close() })
		both.Wait()
	}
	for range 2 {
		require.NoError(t, publisher.Publish(t.Context(), bus.TimersChanged, bus.Message{}))
	}
}
