package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	everySecond = "* * * * * *"
	// reach is the promised time within which a status change reaches every executor.
	reach = time.Second
)

// TestP5DeactivationStopsTheNextFire checks a timer that fires each second, and is deactivated and
// activated again. No window entry is removed. Still no fire is called while it is inactive, and
// every fire before and after is.
func TestP5DeactivationStopsTheNextFire(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		asked := time.Now()
		id := env.active(t, "switched", client.Cron(everySecond), "/switched")
		on := time.Now()
		env.led.AddEvery(id, time.Second, asked, on, ledger.May)
		pause(t, 4*time.Second)

		sure := env.awaitCalled(t, on, id)
		env.led.AddEvery(id, time.Second, on, sure, ledger.Must)
		_, err := env.api.SetStatus(t.Context(), env.app, id, "inactive")
		require.NoError(t, err)
		off := time.Now()
		env.led.AddEvery(id, time.Second, sure, off.Add(reach), ledger.May)
		pause(t, 7*time.Second)

		asked = time.Now()
		env.led.AddEvery(id, time.Second, off.Add(reach), asked, ledger.Not)
		require.NoError(t, env.api.V1Enable(t.Context(), env.app, id))
		on = time.Now()
		env.led.AddEvery(id, time.Second, asked, on, ledger.May)
		env.led.AddEvery(id, time.Second, on, on.Add(6*time.Second), ledger.Must)
		v := env.settle(t)
		require.NotEmpty(t, v.Skipped, "the window entries were still there")
	})
}

// deactivateInFlight deactivates timers some seconds before they are due: every third when an
// executor has already claimed its fire, because tasks are dispatched 2 s ahead. From a second after
// the deactivation the fire may not be called, and each fire must have an outcome. A machine that
// takes too long for that gets twice the time, until some timer was deactivated in time.
func deactivateInFlight(t *testing.T, env *environment) {
	t.Helper()
	for lead := 8 * time.Second; !deactivateBefore(t, env, lead); lead *= 2 {
		require.Less(t, lead, time.Minute, "no timer was deactivated a second before it was due")
		t.Logf("no timer was deactivated a second before it was due, created %s before", lead)
	}
}

// deactivateBefore deactivates timers created lead before they are due, for deactivateInFlight. It
// reports whether any was deactivated in time.
func deactivateBefore(t *testing.T, env *environment, lead time.Duration) bool {
	t.Helper()
	at := spread(soon(lead), lead*5/4, 150)
	ids := env.oneShots(t, fmt.Sprintf("held-%s", lead), "/held", at...)
	env.awaitPlanned(t, ids, at...)
	off := make([]bool, len(ids)) // fires that may not be called
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	when := func(i int) time.Time {
		return at[i].Add(
			-[]time.Duration{1500 * time.Millisecond, 3 * time.Second, lead * 3 / 4}[i%3],
		)
	}
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return when(a).Compare(when(b)) })
	for _, i := range order {
		pauseUntil(t, when(i))
		eg.Go(func() error {
			if _, err := env.api.SetStatus(ctx, env.app, ids[i], "inactive"); err != nil {
				return fmt.Errorf("deactivating: %w", err)
			}
			off[i] = at[i].After(time.Now().Add(reach))
			env.led.Add(ids[i], at[i], ledger.May)
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	pauseUntil(t, at[len(at)-1].Add(time.Second))
	for i, id := range ids {
		if off[i] {
			require.Empty(t, env.rcv.Of(id), "called while its timer was not active")
		}
	}
	// No fire is lost: a fire that was not called waits for its timer.
	eg, ctx = errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i, id := range ids {
		eg.Go(func() error {
			if _, err := env.api.SetStatus(ctx, env.app, id, "active"); err != nil {
				return fmt.Errorf("activating: %w", err)
			}
			env.led.Add(id, at[i], ledger.Must)
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	env.settle(t)
	return slices.Contains(off, true)
}

// TestP5ReachesExecutorsWithinASecond checks that a status change also affects claimed fires.
func TestP5ReachesExecutorsWithinASecond(t *testing.T) {
	t.Parallel()
	runOnAll(t, deactivateInFlight)
}

// TestP5ReachesExecutorsWithoutTheBroker checks the same while every change notification is lost,
// because the API is cut off from Pulsar.
func TestP5ReachesExecutorsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	overServers := runnerNamed("real")
	t.Run(overServers.name, func(t *testing.T) {
		t.Parallel()
		o, links := behindProxies(t, func(
			r cluster.Role, through *cluster.Servers,
		) map[string]string {
			if r != cluster.API {
				return nil
			}
			return map[string]string{"CARILLON_PULSAR_URL": through.PulsarURL}
		})
		runOnOwn(t, overServers, o, func(t *testing.T, env *environment) {
			announced := func(result string) float64 {
				return cluster.Sum(
					t.Context(),
					env.Role(cluster.API),
					"carillon_api_change_notifications_total",
					`"`+result+`"`,
				)
			}
			for _, p := range links[cluster.Pulsar] {
				p.Cut()
			}
			deactivateInFlight(t, env)
			require.Zero(
				t,
				announced("ok"),
				"the fault did not happen: change notifications were published",
			)
			require.Eventually(
				t,
				func() bool { return announced("lost")+announced("dropped") > 0 },
				patience,
				50*time.Millisecond,
			)
		})
	})
}

// TestP5DeletedTimerIsNotCalled checks that a deleted timer is not called, and that its name is
// free.
func TestP5DeletedTimerIsNotCalled(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		v1 := env.active(t, "by-v1", client.Cron(everySecond), "/deleted")
		v2 := env.active(t, "by-v2", client.Cron(everySecond), "/deleted")
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(v1)) > 1 && len(env.rcv.Of(v2)) > 1 },
			patience,
			20*time.Millisecond,
		)
		require.NoError(t, env.api.V1Delete(t.Context(), env.app, v1))
		require.NoError(t, env.api.Delete(t.Context(), env.app, v2))
		off := time.Now()
		for _, id := range []timer.ID{v1, v2} {
			_, err := env.api.Get(t.Context(), env.app, id)
			var e *client.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, http.StatusNotFound, e.Status)
		}
		again := env.active(t, "by-v2", client.Cron(everySecond), "/deleted")
		require.NotEqual(t, v2, again)
		on := time.Now()
		pause(t, 5*time.Second)
		env.led.AddEvery(v1, time.Second, off.Add(reach), time.Now(), ledger.Not)
		env.led.AddEvery(v2, time.Second, off.Add(reach), time.Now(), ledger.Not)
		env.led.AddEvery(again, time.Second, on, time.Now(), ledger.Must)
		env.settle(t)
	})
}

// TestEnabledInTheMiddleOfAMinute checks that fires due within the expansion horizon are committed
// when enable returns. Fires from before the activation are not made up for.
func TestEnabledInTheMiddleOfAMinute(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		id, err := env.api.V1Create(t.Context(), client.V1Def{
			App:    env.app,
			Name:   "middle",
			Cron:   everySecond,
			Notify: client.V1Notify{URL: env.rcv.URL("/middle"), Method: "GET"},
		})
		require.NoError(t, err)
		if now := time.Now(); now.Second() < 15 || now.Second() > 45 {
			at := now.Truncate(time.Minute).Add(15 * time.Second)
			if at.Before(now) {
				at = at.Add(time.Minute)
			}
			pauseUntil(t, at)
		}
		asked := time.Now()
		require.NoError(t, env.api.V1Enable(t.Context(), env.app, id))
		on := time.Now()
		env.led.AddEvery(id, time.Second, asked.Add(-time.Minute), asked, ledger.Not)
		env.led.AddEvery(id, time.Second, asked, on, ledger.May)
		env.led.AddEvery(id, time.Second, on, on.Add(10*time.Second), ledger.Must)
		pauseUntil(t, on.Add(10*time.Second))
		v := env.settle(t)
		require.Less(t, v.Lateness.P50, 8*time.Second, "overdue fires are found after 10 s")
	})
}
