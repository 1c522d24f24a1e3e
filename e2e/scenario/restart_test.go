package scenario

import (
	"context"
	"fmt"
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
