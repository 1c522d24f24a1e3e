package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLastAcknowledgementMayBeUnknown: Pulsar has none for busy partitioned topics, so its absence
// must not be called "never".
func TestLastAcknowledgementMayBeUnknown(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-", lastAck(time.Time{}))
	require.Equal(t, "2026-01-31T12:00:00Z", lastAck(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
}
