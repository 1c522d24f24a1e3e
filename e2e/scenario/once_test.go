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

// TestP1NeverEarlyEachSecondForAMinute: three timers ring each second or every other one for a
// minute, over the border of a minute and over several expansions: none missing, early or repeated.
func TestP1NeverEarlyEachSecondForAMinute(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		const length = time.Minute
		steps := map[string]time.Duration{
			"* * * * * *":     time.Second,
			"*/2 * * * * * *": 2 * time.Second,
			"0/1 * * * * ?":   time.Second,
		}
		for cron, step := range steps {
			id, err := w.api.V1Create(t.Context(), client.V1Def{
				App:    w.app,
				Name:   cron,
				Cron:   cron,
				Notify: client.V1Notify{URL: w.rcv.URL("/each"), Method: "POST"},
			})
			require.NoError(t, err, cron)
			asked := time.Now()
			require.NoError(t, w.api.V1Enable(t.Context(), w.app, id))
			enabled := time.Now()
			w.led.Every(id, step, asked, enabled, ledger.May)
			w.led.Every(id, step, enabled, enabled.Add(length), ledger.Must)
			defer func() { require.NoError(t, w.api.V1Unable(t.Context(), w.app, id)) }()
		}
		pause(t, length)
		v := w.settle(t)
		require.GreaterOrEqual(t, v.Due, 150)
	})
}

// TestP1NeverEarlyAThousandAtOnce: 1,000 one-shots at the same second.
func TestP1NeverEarlyAThousandAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.oneShots(t, "herd", "/herd", same(soon(30*time.Second), 1000)...)
		v := w.settle(t)
		require.Equal(t, 1000, v.Delivered)
	})
}

// TestP9ReplicasShareTheWork: with two replicas of every service each fire happens once, and no
// service leaves all work to one of its replicas.
func TestP9ReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	for _, r := range runners {
		if r.name == "allinone" {
			continue // it is one process
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			onShared(t, r, func(t *testing.T, w *world) {
				require.Len(t, w.Role(cluster.Executor), 2)
				before := made(t, w)
				at := soon(20 * time.Second)
				w.oneShots(t, "spread", "/share", spread(at, 10*time.Second, 400)...)
				w.oneShots(t, "herd", "/share", same(at.Add(3*time.Second), 200)...)
				w.settle(t)
				for i, n := range made(t, w) {
					require.Greater(t, n, before[i], "executor %d made no callback", i)
				}
			})
		})
	}
}

// made returns how many fires each executor recorded.
func made(t *testing.T, w *world) []float64 {
	t.Helper()
	var n []float64
	for _, p := range w.Role(cluster.Executor) {
		m, err := p.Metrics(t.Context())
		require.NoError(t, err)
		n = append(n, m.Sum("carillon_fires_total"))
	}
	return n
}

// TestP4LatenessIsMeasured: every fire that was called is in the histogram that alerts and people
// read.
func TestP4LatenessIsMeasured(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		const n = 100
		const name = "carillon_lateness_seconds"
		execs := w.Role(cluster.Executor)
		before := cluster.Sum(t.Context(), execs, name+"_count")
		ids := w.oneShots(t, "late", "/late", spread(soon(5*time.Second), 2*time.Second, n)...)
		w.settle(t)
		require.GreaterOrEqual(t, cluster.Sum(t.Context(), execs, name+"_count")-before, float64(n))
		require.Positive(t, cluster.Sum(t.Context(), execs, name+"_bucket", `le="1"`))

		fires, err := w.api.History(t.Context(), w.app, ids[0])
		require.NoError(t, err)
		require.Len(t, fires, 1)
		seen := w.rcv.Of(ids[0])[0].Lateness()
		require.InDelta(
			t,
			seen.Milliseconds(),
			fires[0].LatenessMS,
			2,
			"the history says how late it was",
		)
	})
}

// TestP4ExpressLaneAndBeyondTheHorizon: a timer that is due before the next round of the machinery
// is not found by the sweep only, and neither is one that lies beyond what is expanded when it is
// made.
func TestP4ExpressLaneAndBeyondTheHorizon(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		now := time.Now().Truncate(time.Millisecond)
		// These are due when they are made, whenever that is (or a moment later).
		past := w.active(t, "past", client.At(now.Add(-time.Hour)), "/ahead")
		soonest := w.active(t, "soonest", client.At(time.Now().Add(300*time.Millisecond)), "/ahead")
		delay := w.active(t, "delay", client.Delay(2*time.Second), "/ahead")
		made := time.Now()
		w.oneShots(
			t,
			"ahead",
			"/ahead",
			made.Add(3*time.Second).Truncate(time.Millisecond),
			made.Add(step1+20*time.Second).Truncate(time.Millisecond),
		)
		for _, id := range []timer.ID{past, soonest, delay} {
			require.Eventually(
				t,
				func() bool { return len(w.rcv.Of(id)) > 0 },
				patience,
				20*time.Millisecond,
			)
			due := time.UnixMilli(w.rcv.Of(id)[0].Fire.DueMS)
			require.False(t, due.Before(now), "one in the past is due at its activation")
			require.False(t, due.After(made.Add(2*time.Second+clocks)))
			w.led.One(id, due, ledger.Must)
		}
		v := w.settle(t)
		require.Equal(t, 5, v.Due)
		require.Less(t, v.Lateness.P50, 8*time.Second, "the sweep comes after 10 s")
	})
}
