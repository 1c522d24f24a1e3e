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

// A batch that is given back is a line for each reason, however many messages it has. What a
// handler leaves on purpose is no warning.
func TestLogRedeliveries(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	kept, late := fmt.Errorf("it stays: %w", bus.ErrPostponed), errors.New("the store is away")
	bus.LogRedeliveries(
		zerolog.New(&out),
		[]error{nil, late, kept, bus.Permanent(errors.New("unreadable")), late, late, nil, kept},
	)
	require.Equal(t, []string{
		`{"level":"warn","error":"the store is away","messages":3,"message":"to be redelivered"}`,
		`{"level":"debug","error":"` + kept.Error() + `","messages":2,"message":"to be redelivered"}`,
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
	require.False(t, bus.IsPermanent(bus.ErrPostponed))
	out.Reset()
	bus.LogRedeliveries(zerolog.New(&out), nil)
	require.Empty(t, out.String())
}
