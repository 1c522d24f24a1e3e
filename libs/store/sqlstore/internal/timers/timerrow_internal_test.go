package timers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusesOfRows checks that a status of a newer release is not taken for a known one, and that
// it is written back as it was read.
func TestStatusesOfRows(t *testing.T) {
	t.Parallel()
	for n := range int64(10) {
		s := StatusFromRow(n)
		require.Equal(t, n <= RowPaused, s.Known(), s)
		require.Equal(t, n, StatusToRow(s), s)
	}
	require.EqualValues(t, RowNone, StatusToRow("of_tomorrow"))
}
