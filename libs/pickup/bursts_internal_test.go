package pickup

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestBurstIsLeftToTheLowTopic checks that an app's burst is left to the low-priority topic while
// that is behind, up to its last fire found. Later fires and those of other apps are not, nor any
// without a trigger to publish them.
func TestBurstIsLeftToTheLowTopic(t *testing.T) {
	t.Parallel()
	const at = 1000
	fires := make([]timer.Fire, burstSize+2)
	for i := range fires {
		fires[i] = timer.Fire{
			FireID:  timer.FireID{Timer: timer.ID(i + 1)},
			AppID:   1,
			RunAtMS: at + int64(i%7),
		}
	}
	other, low := &fires[burstSize], &fires[burstSize+1]
	other.AppID, low.AppID, low.PriorityLevel = 2, 2, timer.LevelLow
	var b bursts
	require.Equal(t, fires[:burstSize+1], b.exclude(slices.Clone(fires), true, false))
	require.Equal(t, []timer.Fire{*other}, b.exclude(slices.Clone(fires), true, true))
	few := []timer.Fire{
		{FireID: timer.FireID{Timer: 1}, AppID: 1, RunAtMS: at + 6},
		{FireID: timer.FireID{Timer: 2}, AppID: 1, RunAtMS: at + 7},
	}
	require.Equal(t, few[1:], b.exclude(slices.Clone(few), true, true))
	require.Equal(
		t,
		few[1:],
		b.exclude(slices.Clone(few), true, false),
		"low-priority fires are left to it in any case",
	)
	require.Equal(t, few, b.exclude(slices.Clone(few), false, true))
}
