package bus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

// What a handler leaves on purpose is no warning.
func TestRedeliveryLevel(t *testing.T) {
	t.Parallel()
	require.Equal(t, zerolog.DebugLevel, bus.RedeliveryLevel(fmt.Errorf("it stays: %w", bus.ErrKept)))
	require.Equal(t, zerolog.WarnLevel, bus.RedeliveryLevel(errors.New("it stays")))
	require.False(t, bus.IsPermanent(bus.ErrKept))
}
