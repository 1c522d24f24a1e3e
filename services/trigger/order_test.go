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
	late := dispatch.LateAfter.Milliseconds()
	var fires []timer.Fire
	for i, run := range []int64{now - 2*late, now - late - 1, now - late, now, now + 1} {
		fires = append(fires, timer.Fire{FireID: timer.FireID{Timer: timer.ID(i + 1)}, RunMS: run})
	}
	var order []timer.ID
	for _, f := range presentFirst(fires, now) {
		order = append(order, f.Timer)
	}
	require.Equal(t, []timer.ID{3, 4, 5, 1, 2}, order)
}
