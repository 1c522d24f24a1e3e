package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusesOfRows checks that a status of a newer release is not taken for a known one, and that
// it is written back as it was read.
func TestStatusesOfRows(t *testing.T) {
	t.Parallel()
	for n := range int64(10) {
		s := statusFromRow(n)
		require.Equal(t, n <= rowPaused, s.Known(), s)
		require.Equal(t, n, statusToRow(s), s)
	}
	require.EqualValues(t, rowNone, statusToRow("of_tomorrow"))
}
