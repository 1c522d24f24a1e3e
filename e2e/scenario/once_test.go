package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestP1NeverEarlyEachSecondForAMinute checks three timers with a fire each second, or every other
// second, for a minute. That spans a change of minute and several expansions. No fire is missing,
// early or repeated.
func TestP1NeverEarlyEachSecondForAMinute(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		const length = time.Minute
		steps := map[string]time.Duration{
			"* * * * * *":     time.Second,
			"*/2 * * * * * *": 2 * time.Second,
			"0/1 * * * * ?":   time.Second,
		}
		for cron, step := range steps {
			id, err := env.api.V1Create(t.Context(), client.V1Def{
				App:    env.app,
				Name:   cron,
				Cron:   cron,
				Notify: client.V1Notify{URL: env.rcv.URL("/each"), Method: "POST"},
			})
			require.NoError(t, err, cron)
			asked := time.Now()
			require.NoError(t, env.api.V1Enable(t.Context(), env.app, id))
			enabled := time.Now()
			env.led.AddEvery(id, step, asked, enabled, ledger.May)
			env.led.AddEvery(id, step, enabled, enabled.Add(length), ledger.Must)
			defer func() { require.NoError(t, env.api.V1Unable(t.Context(), env.app, id)) }()
		}
		pause(t, length)
		v := env.settle(t)
		require.GreaterOrEqual(t, v.Due, 150)
	})
}

// TestP1NeverEarlyAThousandAtOnce checks 1,000 one-shots in the same second.
func TestP1NeverEarlyAThousandAtOnce(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.oneShots(t, "burst", "/burst", repeat(soon(30*time.Second), 1000)...)
		v := env.settle(t)
		require.Equal(t, 1000, v.Delivered)
	})
}

// TestP9ReplicasShareTheWork checks, with two replicas of every service, that each fire happens
// once and that no replica is idle.
func TestP9ReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	for _, r := range runners {
		if r.name == "allinone" {
			continue // one process has all roles
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			runOnShared(t, r, func(t *testing.T, env *environment) {
				require.Len(t, env.Role(cluster.Executor), 2)
				before := made(t, env)
				at := soon(20 * time.Second)
				env.oneShots(t, "spread", "/share", spread(at, 10*time.Second, 400)...)
				env.oneShots(t, "burst", "/share", repeat(at.Add(3*time.Second), 200)...)
				env.settle(t)
				for i, n := range made(t, env) {
					require.Greater(t, n, before[i], "executor %d made no call", i)
				}
			})
		})
	}
}

// made returns how many fires each executor recorded.
func made(t *testing.T, env *environment) []float64 {
	t.Helper()
	var n []float64
	for _, p := range env.Role(cluster.Executor) {
		m, err := p.Metrics(t.Context())
		require.NoError(t, err)
		n = append(n, m.Sum("carillon_fires_total"))
	}
	return n
}

// TestP4LatenessIsMeasured checks that the lateness histogram counts every called fire.
func TestP4LatenessIsMeasured(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		const n = 100
		const name = "carillon_lateness_seconds"
		execs := env.Role(cluster.Executor)
		before := cluster.Sum(t.Context(), execs, name+"_count")
		ids := env.oneShots(t, "late", "/late", spread(soon(15*time.Second), 2*time.Second, n)...)
		env.settle(t)
		require.GreaterOrEqual(t, cluster.Sum(t.Context(), execs, name+"_count")-before, float64(n))
		require.Positive(t, cluster.Sum(t.Context(), execs, name+"_bucket", `le="1"`))

		fires, err := env.api.History(t.Context(), env.app, ids[0])
		require.NoError(t, err)
		require.Len(t, fires, 1)
		seen := env.rcv.Of(ids[0])[0].Lateness()
		require.InDelta(
			t,
			seen.Milliseconds(),
			fires[0].LatenessMS,
			2,
			"the history has the lateness",
		)
	})
}

// TestP4DirectDispatchAndBeyondHorizon checks a timer that is due before the next poll, and one
// that is due beyond the expansion horizon. Neither may wait until it is overdue.
func TestP4DirectDispatchAndBeyondHorizon(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		now := time.Now().Truncate(time.Millisecond)
		// These are due at their creation, or a moment later.
		past := env.active(t, "past", client.At(now.Add(-time.Hour)), "/ahead")
		soonest := env.active(
			t,
			"soonest",
			client.At(time.Now().Add(300*time.Millisecond)),
			"/ahead",
		)
		delay := env.active(t, "delay", client.Delay(2*time.Second), "/ahead")
		made := time.Now()
		env.oneShots(
			t,
			"ahead",
			"/ahead",
			made.Add(3*time.Second).Truncate(time.Millisecond),
			made.Add(expandAhead+20*time.Second).Truncate(time.Millisecond),
		)
		for _, id := range []timer.ID{past, soonest, delay} {
			require.Eventually(
				t,
				func() bool { return len(env.rcv.Of(id)) > 0 },
				patience,
				20*time.Millisecond,
			)
			due := time.UnixMilli(env.rcv.Of(id)[0].Fire.DueMS)
			require.False(t, due.Before(now), "a one-shot in the past is due at its activation")
			require.False(t, due.After(made.Add(2*time.Second+clockTolerance)))
			env.led.Add(id, due, ledger.Must)
		}
		v := env.settle(t)
		require.Equal(t, 5, v.Due)
		require.Less(t, v.Lateness.P50, 8*time.Second, "overdue fires are found after 10 s")
	})
}
