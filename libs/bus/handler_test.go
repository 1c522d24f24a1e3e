package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		failures int
		want     time.Duration
	}{
		{0, 200 * time.Millisecond},
		{1, 200 * time.Millisecond},
		{2, 400 * time.Millisecond},
		{6, 6400 * time.Millisecond},
		{7, 10 * time.Second},
		{1 << 30, 10 * time.Second},
	}
	for _, test := range tests {
		require.Equal(t, test.want, bus.Backoff(test.failures), "%d failures", test.failures)
	}
}

func TestHandlerCall(t *testing.T) {
	t.Parallel()
	batch := make([]bus.Message, 3)
	bad := errors.New("bad")
	tests := []struct {
		name    string
		handler bus.Handler
		failed  int
	}{
		{"all done", func(context.Context, []bus.Message) []error { return nil }, 0},
		{
			"one failed",
			func(context.Context, []bus.Message) []error { return []error{nil, bad, nil} },
			1,
		},
		{
			"too few results",
			func(context.Context, []bus.Message) []error { return []error{nil} },
			3,
		},
		{"panic", func(context.Context, []bus.Message) []error { panic("bad") }, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for _, err := range test.handler.Call(t.Context(), batch) {
				if err != nil {
					failed++
					require.False(t, bus.IsPermanent(err))
				}
			}
			require.Equal(t, test.failed, failed)
		})
	}
}

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	in := bus.Message{
		Key:        "shop",
		Payload:    []byte{0xff},
		Properties: map[string]string{bus.PropApp: "shop"},
	}
	out, err := bus.DeadLetter(bus.TasksHigh, in, errors.New("unknown field in \xff"))
	require.NoError(t, err)
	require.Equal(t, "shop", out.Key)
	require.Equal(t, map[string]string{
		bus.PropApp: "shop", bus.PropReason: "unknown field in �", bus.PropTopic: "tasks-high",
	}, out.Properties)
	require.Len(t, in.Properties, 1, "the original message is unchanged")
	var task carillonv1.DeadTask
	require.NoError(t, proto.Unmarshal(out.Payload, &task))
	require.Equal(t, []byte{0xff}, task.GetRaw())
	require.Equal(t, "unknown field in �", task.GetReason())
}
