package callback

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lateTimer is a context whose deadline has passed and whose timer has not run yet.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

// TestServerThatEndsAtTheDeadline checks that such a call is a timeout, whichever of the two timers
// runs first.
func TestServerThatEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	var seen response
	seen.trailers.Store(true)
	exceeded := status.Error(codes.DeadlineExceeded, "")
	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.True(t, seen.answered(early, exceeded))
	require.True(t, seen.answered(t.Context(), exceeded))
	require.False(t, seen.answered(lateTimer{t.Context()}, exceeded))
	require.True(t, seen.answered(lateTimer{t.Context()}, status.Error(codes.Canceled, "")))
	require.True(t, seen.answered(lateTimer{t.Context()}, status.Error(codes.NotFound, "")))
	cancel()
	require.False(t, seen.answered(early, exceeded))
	require.False(t, seen.answered(early, status.Error(codes.Canceled, "")))
}
