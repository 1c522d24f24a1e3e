package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

// TestLogRedeliveries: redeliveries are logged once per reason, and postponed messages are no
// warnings.
func TestLogRedeliveries(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	postponed, failed := fmt.Errorf(
		"not yet: %w",
		bus.ErrPostponed,
	), errors.New(
		"store unavailable",
	)
	bus.LogRedeliveries(
		zerolog.New(&out),
		[]error{
			nil,
			failed,
			postponed,
			bus.Permanent(errors.New("unreadable")),
			failed,
			failed,
			nil,
			postponed,
		},
	)
	require.Equal(t, []string{
		`{"level":"warn","error":"store unavailable","messages":3,"message":"handler failed, message nacked"}`,
		`{"level":"debug","error":"` + postponed.Error() + `","messages":2,"message":"handler failed, message nacked"}`,
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
	require.False(t, bus.IsPermanent(bus.ErrPostponed))
	out.Reset()
	bus.LogRedeliveries(zerolog.New(&out), nil)
	require.Empty(t, out.String())
}
