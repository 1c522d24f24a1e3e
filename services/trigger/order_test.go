package trigger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestPresentGoesFirst(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	after := dispatch.LateAfter.Milliseconds()
	var fires []timer.Fire
	for i, run := range []int64{now - 2*after, now - after - 1, now - after, now, now + 1} {
		fires = append(fires, timer.Fire{FireID: timer.FireID{Timer: timer.ID(i + 1)}, RunMS: run})
	}
	present, late := byAge(fires, now)
	require.Equal(t, fires[2:], present)
	require.Equal(t, fires[:2], late)
}
