package scheduler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestUnclaimedBurstGoesToTheLowTopic checks that an app's burst is not repeated on the on-time
// topics, where it would delay other apps' fires.
func TestUnclaimedBurstGoesToTheLowTopic(t *testing.T) {
	t.Parallel()
	fires := make([]timer.Fire, burstSize+2)
	for i := range fires {
		fires[i] = timer.Fire{FireID: timer.FireID{Timer: timer.ID(i + 1)}, AppID: 1}
	}
	fires[7].AppID = 2
	some, bursts := splitBursts(fires)
	require.Equal(t, fires[7:8], some)
	require.Len(t, bursts, burstSize+1)
	some, bursts = splitBursts(fires[:burstSize+1])
	require.Len(t, some, burstSize+1)
	require.Empty(t, bursts)
}
