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

// TestEachOutageHasAStandIn checks that fire_once calls one late fire after each of two outages,
// when jitter plans fires for the second one that are due before the first one ended.
func TestEachOutageHasAStandIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := everySecond(parts, 100, func(d *timer.Definition) {
			d.Schedule.Jitter = timer.Duration(20 * time.Minute)
			end := time.Now().Add(100 * time.Second) // the fires below are all that there are
			d.Schedule.EndAt = &end
			d.Misfire = timer.Misfire{Policy: timer.MisfireFireOnce}
		})
		r := new(receiver)
		time.Sleep(8 * time.Minute)
		stop := start(t, parts, "one", r, nil)
		time.Sleep(30 * time.Second)
		stop()
		time.Sleep(time.Second)
		first := reasons(t, parts, fires)
		t.Log("after the first outage", first)
		require.Positive(t, first["delivered"])
		require.Greater(t, first["open"], 20)
		time.Sleep(20 * time.Minute)
		start(t, parts, "two", r, nil)
		time.Sleep(30 * time.Second)
		second := reasons(t, parts, fires)
		t.Log("after the second outage", second)
		require.Zero(t, second["open"])
		require.Equal(
			t,
			first["delivered"]+1,
			second["delivered"],
			"one late fire of the second outage is called",
		)
	})
}
