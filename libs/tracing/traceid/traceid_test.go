package traceid_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// TestIDsAreStable checks that the ids stay the same: another release must add to the same trace.
func TestIDsAreStable(t *testing.T) {
	t.Parallel()
	id := traceid.Of(timer.FireID{Timer: 4611686018427, DueMS: 1790000000000})
	span := traceid.RootOf(id)
	require.Equal(t,
		"00-cd282888bf9125612e2dfccbe7ef8343-842b1191116fb8d7-01",
		string(traceid.AppendParent(nil, id, span, true)),
	)
	require.NotEqual(
		t,
		id,
		traceid.Of(timer.FireID{Timer: 4611686018427, DueMS: 1790000000000, Series: 1}),
	)
	one, other := traceid.NewSpan(), traceid.NewSpan()
	require.NotEqual(t, one, other)
	require.Len(t, traceid.AppendParent(nil, id, span, false), traceid.ParentLen)
}

func TestNothingIsAllocated(t *testing.T) {
	fire := timer.FireID{Timer: timer.MaxID, DueMS: 1 << 62, Series: 1 << 62}
	require.Zero(t, testing.AllocsPerRun(100, func() { traceid.RootOf(traceid.Of(fire)) }))
}
