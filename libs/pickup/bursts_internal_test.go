package pickup

import (
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
	exclude := func(read []timer.Fire, lowBehind, dispatched bool) []timer.Fire {
		return b.exclude(nil, read, map[int64]int{}, lowBehind, dispatched)
	}
	require.Equal(t, fires[:burstSize+1], exclude(fires, true, false))
	require.Equal(t, []timer.Fire{*other}, exclude(fires, true, true))
	few := []timer.Fire{
		{FireID: timer.FireID{Timer: 1}, AppID: 1, RunAtMS: at + 6},
		{FireID: timer.FireID{Timer: 2}, AppID: 1, RunAtMS: at + 7},
	}
	require.Equal(t, few[1:], exclude(few, true, true))
	require.Equal(
		t,
		few[1:],
		exclude(few, true, false),
		"low-priority fires are left to it in any case",
	)
	require.Equal(t, few, exclude(few, false, true))
}

// TestBurstIsCountedOverRounds checks that the end of a burst is left out, too, if it is read after the
// rest, and so is what was kept before there were enough to tell.
func TestBurstIsCountedOverRounds(t *testing.T) {
	t.Parallel()
	fires := make([]timer.Fire, 3*burstSize/2)
	for i := range fires {
		fires[i] = timer.Fire{
			FireID: timer.FireID{Timer: timer.ID(i + 1)}, AppID: 1, RunAtMS: int64(i),
		}
	}
	var b bursts
	counts := map[int64]int{}
	part := burstSize / 2
	kept := b.exclude(nil, fires[:part:part], counts, true, true)
	require.Len(t, kept, part)
	kept = b.exclude(kept, fires[part:2*part], counts, true, true)
	require.Empty(t, kept)
	require.Empty(t, b.exclude(kept, fires[2*part:], counts, true, true))
}
