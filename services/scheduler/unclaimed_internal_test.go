package scheduler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// What an app has much of is not repeated on the priority of what is due now, where other apps'
// fires would stand behind it.
func TestUnclaimedBurstGoesToTheLowTopic(t *testing.T) {
	t.Parallel()
	fires := make([]timer.Fire, burstSize+2)
	for i := range fires {
		fires[i] = timer.Fire{FireID: timer.FireID{Timer: timer.ID(i + 1)}, AppID: 1}
	}
	fires[7].AppID = 2
	some, floods := splitBursts(fires)
	require.Equal(t, fires[7:8], some)
	require.Len(t, floods, burstSize+1)
	some, floods = splitBursts(fires[:burstSize+1])
	require.Len(t, some, burstSize+1)
	require.Empty(t, floods)
}
