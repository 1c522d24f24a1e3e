package pulsarbus_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
)

// TestRefusedConnectionIsReported: the client retries a refused connection, and reports nothing
// before the attempt ends.
func TestRefusedConnectionIsReported(t *testing.T) {
	t.Parallel()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := port.Addr().String()
	require.NoError(t, port.Close())
	f, err := pulsarbus.NewExternalPublisher(pulsarbus.Config{}, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = f.Publish(
		ctx,
		pulsarbus.ExternalMessage{ServiceURL: "pulsar://" + address, Topic: "persistent://a/b/c"},
	)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	op, ok := errors.AsType[*net.OpError](err)
	require.True(t, ok)
	require.Equal(t, "dial", op.Op)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	err = f.Publish(
		t.Context(),
		pulsarbus.ExternalMessage{ServiceURL: "pulsar://" + address, Topic: "persistent://a/b/c"},
	)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "when the client gives up by itself, too")
}
