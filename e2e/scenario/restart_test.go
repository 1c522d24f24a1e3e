package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestP10EmbeddedSurvivesItsRestart stops the all-in-one with calls in flight, keeps it down while
// fires fall due, and starts it on its data. No fire is lost. An orderly stop repeats no call, a
// kill only those in flight.
func TestP10EmbeddedSurvivesItsRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *environment){
		"SIGTERM": func(t *testing.T, env *environment) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, cluster.StopAll(ctx, env.Processes()...))
		},
		"SIGKILL": func(t *testing.T, env *environment) {
			t.Helper()
			env.kill(t, env.Processes()...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOnOwn(
				t,
				runnerNamed("allinone"),
				cluster.Options{},
				func(t *testing.T, env *environment) { restart(t, env, end) },
			)
		})
	}
}

func restart(t *testing.T, env *environment, end func(*testing.T, *environment)) {
	t.Helper()
	const down = 4 * time.Second
	env.rcv.Script("/slow", receiver.Script{Delay: 1500 * time.Millisecond})
	asked := time.Now()
	var crons []timer.ID
	for i := range 5 {
		crons = append(
			crons,
			env.active(t, fmt.Sprintf("cron-%d", i), client.Cron(everySecond), "/cron"),
		)
	}
	active := time.Now()
	at := soon(4 * time.Second)
	inflight := env.oneShots(t, "inflight", "/slow", repeat(at, 20)...)
	env.oneShots(t, "while-down", "/down", spread(at.Add(time.Second), down, 60)...)
	env.oneShots(t, "after", "/after", spread(at.Add(time.Second+down), 4*time.Second, 60)...)
	inactive, err := env.api.V1Create(t.Context(), client.V1Def{
		App:    env.app,
		Name:   "inactive",
		Cron:   everySecond,
		Notify: client.V1Notify{URL: env.rcv.URL("/never"), Method: "POST"},
	})
	require.NoError(t, err)

	require.Eventually(
		t,
		func() bool { return len(env.rcv.Of(inflight...)) == len(inflight) },
		patience,
		5*time.Millisecond,
	)
	end(t, env)
	require.False(t, env.Processes()[0].Running(), "the process is still running")
	pauseUntil(t, at.Add(time.Second+down))
	env.start(t, env.Processes()...)
	pause(t, 5*time.Second)

	now := time.Now()
	for _, id := range crons {
		env.led.AddEvery(id, time.Second, asked, active, ledger.May)
		env.led.AddEvery(id, time.Second, active, now, ledger.Must)
	}
	env.led.AddEvery(inactive, time.Second, active, now, ledger.Not)
	env.settle(t)
	pauseUntil(t, at.Add(down+14*time.Second)) // overdue fires are found 10 s late
	v := env.check(t)
	env.requireKept(t, &v)
	require.LessOrEqual(t, v.Excused, len(inflight)+2*len(crons))
	require.Empty(t, env.rcv.Of(inactive))
}

// TestProcessesStartWhilePulsarIsDown kills the api and the executors while they are cut off from
// Pulsar, and starts them: fires are created and called on. None is lost or early, and once Pulsar
// is back the processes are ready.
func TestProcessesStartWhilePulsarIsDown(t *testing.T) {
	t.Parallel()
	overServers := runnerNamed("real")
	t.Run(overServers.name, func(t *testing.T) {
		t.Parallel()
		o, links := behindProxies(t, func(
			_ cluster.Role, through *cluster.Servers,
		) map[string]string {
			return map[string]string{
				"CARILLON_PULSAR_URL":       through.PulsarURL,
				"CARILLON_PULSAR_ADMIN_URL": through.PulsarAdminURL,
			}
		})
		runOnOwn(t, overServers, o, func(t *testing.T, env *environment) {
			startWithoutPulsar(t, env, links[cluster.Pulsar])
		})
	})
}

func startWithoutPulsar(t *testing.T, env *environment, pulsar []*cluster.Proxy) {
	t.Helper()
	for _, p := range pulsar {
		p.Cut()
	}
	lost := slices.Concat(env.Role(cluster.API), env.Role(cluster.Executor))
	env.kill(t, lost...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, p := range lost {
		require.NoError(t, p.Launch(ctx))
	}
	ids := env.oneShots(t, "created", "/created", spread(soon(4*time.Second), 2*time.Second, 20)...)
	require.Eventually(
		t,
		func() bool { return len(env.rcv.Of(ids...)) == len(ids) },
		patience,
		20*time.Millisecond,
	)
	for _, p := range lost {
		require.Contains(t, p.Unready(ctx), `"name":"pulsar","ok":false`)
	}
	for _, p := range pulsar {
		require.NoError(t, p.Heal())
	}
	for _, p := range lost {
		require.NoError(t, p.WaitReady(ctx))
	}
	after := env.oneShots(t, "after", "/after", spread(soon(5*time.Second), time.Second, 10)...)
	require.Eventually(
		t,
		func() bool { return len(env.rcv.Of(after...)) == len(after) },
		patience,
		20*time.Millisecond,
	)
	env.settle(t)
	v := env.check(t)
	env.requireKept(t, &v)
}
