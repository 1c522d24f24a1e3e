package pulsarbus_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
)

// TestNothingIsCreatedBeforeTheSetup checks that a bus whose setup must come first asks no broker
// for a producer or a subscription before, and that another bus does.
func TestNothingIsCreatedBeforeTheSetup(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		asked := make(chan struct{}, 100)
		broker, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := broker.Accept()
				if err != nil {
					return
				}
				asked <- struct{}{}
				_ = c.Close()
			}
		}()
		addr := broker.Addr().String()
		b, err := pulsarbus.New(pulsarbus.Options{
			Config:     pulsarbus.Config{URL: "pulsar://" + addr, AdminURL: "http://" + addr},
			Log:        zerolog.Nop(),
			SetupFirst: first,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		require.Error(t, b.Publish(ctx, bus.TasksNormal, bus.Message{}))
		_, err = b.Subscribe(ctx, bus.Subscription{
			Topic: bus.Slices, Name: "triggers", Concurrency: 1, MaxBatch: 1, Prefetch: 2,
		}, nil)
		require.Error(t, err)
		cancel()
		require.Equal(t, !first, len(asked) > 0)
		require.NoError(t, b.Close())
		require.NoError(t, broker.Close())
		<-done
	}
}
