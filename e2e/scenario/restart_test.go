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

// TestP10EmbeddedSurvivesItsRestart: the all-in-one is ended with calls in flight, stays down while
// fires fall due, and starts again on its data. Nothing is lost; an orderly end repeats nothing, a
// kill only what was in flight.
func TestP10EmbeddedSurvivesItsRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *world){
		"SIGTERM": func(t *testing.T, w *world) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, cluster.StopAll(ctx, w.Processes()...))
		},
		"SIGKILL": func(t *testing.T, w *world) {
			t.Helper()
			w.kill(t, w.Processes()...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onOwn(
				t,
				runnerNamed("allinone"),
				cluster.Options{},
				func(t *testing.T, w *world) { restart(t, w, end) },
			)
		})
	}
}

func restart(t *testing.T, w *world, end func(*testing.T, *world)) {
	t.Helper()
	const down = 4 * time.Second
	w.rcv.Script("/slow", receiver.Script{Delay: 1500 * time.Millisecond})
	asked := time.Now()
	var crons []timer.ID
	for i := range 5 {
		crons = append(
			crons,
			w.active(t, fmt.Sprintf("cron-%d", i), client.Cron(everySecond), "/cron"),
		)
	}
	active := time.Now()
	at := soon(4 * time.Second)
	inflight := w.oneShots(t, "inflight", "/slow", same(at, 20)...)
	w.oneShots(t, "while-down", "/down", spread(at.Add(time.Second), down, 60)...)
	w.oneShots(t, "after", "/after", spread(at.Add(time.Second+down), 4*time.Second, 60)...)
	inactive, err := w.api.V1Create(t.Context(), client.V1Def{
		App:    w.app,
		Name:   "inactive",
		Cron:   everySecond,
		Notify: client.V1Notify{URL: w.rcv.URL("/never"), Method: "POST"},
	})
	require.NoError(t, err)

	require.Eventually(
		t,
		func() bool { return len(w.rcv.Of(inflight...)) == len(inflight) },
		patience,
		5*time.Millisecond,
	)
	end(t, w)
	require.False(t, w.Processes()[0].Running(), "it runs on")
	pauseUntil(t, at.Add(time.Second+down))
	w.start(t, w.Processes()...)
	pause(t, 5*time.Second)

	now := time.Now()
	for _, id := range crons {
		w.led.Every(id, time.Second, asked, active, ledger.May)
		w.led.Every(id, time.Second, active, now, ledger.Must)
	}
	w.led.Every(inactive, time.Second, active, now, ledger.Not)
	w.settle(t)
	pauseUntil(t, at.Add(down+14*time.Second)) // what the sweep repeats comes 10 s late
	v := w.judge(t)
	require.Empty(t, v.Faults())
	require.LessOrEqual(t, v.Excused, len(inflight)+2*len(crons))
	require.Empty(t, w.rcv.Of(inactive))
}
