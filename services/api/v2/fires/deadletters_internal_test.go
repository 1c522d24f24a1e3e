package fires

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// lastRedriven is a store in which every fire after an instant is redriven.
type lastRedriven struct {
	Store

	from int64
}

func (s *lastRedriven) RedrivenAmong(
	_ context.Context,
	ids []timer.FireID,
) (out []timer.FireID, _ error) {
	for _, id := range ids {
		if id.DueMS >= s.from {
			out = append(out, id)
		}
	}
	return out, nil
}

// TestDeadLettersBehindManyThatStay checks that dead letters behind any number of unacknowledged
// ones are acknowledged.
func TestDeadLettersBehindManyThatStay(t *testing.T) {
	t.Parallel()
	const stay = maxAckSeen + 3*ackBatch
	s := &Resource{
		Options: Options{Store: &lastRedriven{from: stay}},
		metrics: newMetrics(prometheus.NewRegistry()),
	}
	l := &ackPass{service: s, seen: make(map[timer.FireID]bool), progress: make(chan struct{}, 1)}
	look := func(from int) []error {
		batch := make([]bus.Message, ackBatch)
		for i := range batch {
			payload, err := proto.Marshal(
				&carillonv1.DeadTask{Task: &carillonv1.Task{TimerId: 1, DueMs: int64(from + i)}},
			)
			require.NoError(t, err)
			batch[i].Payload = payload
		}
		return l.handle(t.Context(), batch)
	}
	for from := 0; from < stay; from += ackBatch {
		require.ErrorIs(t, look(from)[0], bus.ErrPostponed)
		require.LessOrEqual(t, len(l.seen), maxAckSeen)
	}
	for _, err := range look(stay) {
		require.NoError(t, err)
	}
	require.Equal(t, ackBatch, l.acked)
	require.Equal(t, stay, l.kept)
}
