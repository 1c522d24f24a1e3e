package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// leaving is a bus whose consumers close slowly, as with a busy broker.
type leaving struct {
	executor.Bus
	takes time.Duration
}

type slowConsumer struct {
	bus.Consumer
	takes time.Duration
}

func (l leaving) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	c, err := l.Bus.Subscribe(ctx, s, h)
	return slowConsumer{c, l.takes}, err
}

func (c slowConsumer) Close() error {
	time.Sleep(c.takes)
	return c.Consumer.Close()
}

// TestStopCallsOnTimeWhileUnsubscribing checks that fires due while a stopping executor waits for
// the broker are called, once.
func TestStopCallsOnTimeWhileUnsubscribing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		stop := start(
			t,
			parts,
			"a",
			r,
			func(o *executor.Options) { o.Bus = leaving{parts.Bus("a"), 3 * time.Second} },
		)
		fires := parts.Create("shop", soon(20, 1500*time.Millisecond)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Second) // they are in flight
		stop()
		calls, at := r.seen()
		require.Len(t, calls, 20)
		for i, c := range calls {
			require.WithinDuration(t, time.UnixMilli(c.PlannedMS), at[i], 50*time.Millisecond)
		}
	})
}
