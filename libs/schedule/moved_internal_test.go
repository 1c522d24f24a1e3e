package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStretchesOfADayStayCached checks that all stretches of a day under calendars of many times are
// computed once, and that the cache does not grow without a bound.
func TestStretchesOfADayStayCached(t *testing.T) {
	t.Parallel()
	var s stretches
	const ofADay = 8 * 48
	for i := range int64(ofADay) {
		s.put(stretch{begin: i}, []int64{i})
	}
	for i := range int64(ofADay) {
		due, ok := s.get(stretch{begin: i})
		require.True(t, ok)
		require.Equal(t, []int64{i}, due)
	}
	_, ok := s.get(stretch{begin: 1, anchorMS: 1})
	require.False(t, ok)
	for i := range int64(10 * maxStretches) {
		s.put(stretch{begin: i}, nil)
		require.LessOrEqual(t, len(s.due), maxStretches)
	}
}
