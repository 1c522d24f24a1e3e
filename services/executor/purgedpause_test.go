package executor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestFiresOfAPauseAreSkippedAfterALongOutage checks that what was due during a pause is skipped,
// although executors were away for longer than history is kept.
func TestFiresOfAPauseAreSkippedAfterALongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		parts := servicetest.New(t, servicetest.Options{})
		fires := everySecond(parts, 30, func(d *timer.Definition) {
			d.Misfire.Grace = timer.Duration(100 * time.Hour)
		})
		set := func(status timer.Status) {
			t.Helper()
			out, err := parts.Store.SetStatus(ctx, []store.StatusChange{
				{App: "a", ID: fires[0].Timer, Status: status},
			}, parts.Plan)
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
		}
		set(timer.StatusPaused)
		time.Sleep(time.Minute)
		set(timer.StatusActive)
		time.Sleep(time.Minute)
		set(timer.StatusPaused) // another pause, so that the state alone does not know the first
		time.Sleep(time.Minute)
		set(timer.StatusActive)
		time.Sleep(48 * time.Hour)
		require.NoError(t, parts.Store.PurgeExpired(ctx, 24*time.Hour))
		start(t, parts, "one", new(receiver), nil)
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int{"skipped:paused": 30}, reasons(t, parts, fires))
	})
}
