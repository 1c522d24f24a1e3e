package delivery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestWaitOfAnAppWithoutLimits checks that a fire is not said to wait for limits that its app has
// not. It waits for the workers that its executor has for one app.
func TestWaitOfAnAppWithoutLimits(t *testing.T) {
	t.Parallel()
	require.Equal(t, timer.WaitWorker, waitOf(&limit.Settings{}))
	require.Equal(t, timer.WaitWorker, waitOf(&limit.Settings{Burst: 1}))
	require.Equal(t, timer.WaitLimits, waitOf(&limit.Settings{Rate: 0.5}))
	require.Equal(t, timer.WaitLimits, waitOf(&limit.Settings{Concurrent: 1}))
}
