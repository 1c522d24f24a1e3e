package scenario

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// isolation is how hard one app presses while another has 200 fires a second, which stay on time.
type isolation struct {
	hanging int           // timers that fire each second at an endpoint that answers after 30 s
	pressed time.Duration // for how long
	flood   int           // fires at one instant
	making  time.Duration // how long their timers may take to be made
	rate    float64       // of an app whose flood has to wait
	wait    time.Duration // for how long it is looked at
	p99     time.Duration // of the app that stays on time; 0: shown, and not judged
}

// With CARILLON_ISOLATION=full the sizes are those that are published, and lateness is judged: for
// a machine that does nothing else.
func isolationSizes() isolation {
	if os.Getenv("CARILLON_ISOLATION") == "full" {
		return isolation{
			hanging: 500,
			pressed: 40 * time.Second,
			flood:   50_000,
			making:  110 * time.Second,
			rate:    1000,
			wait:    20 * time.Second,
			p99:     250 * time.Millisecond,
		}
	}
	return isolation{
		hanging: 100,
		pressed: 8 * time.Second,
		flood:   1500,
		making:  time.Minute,
		rate:    100,
		wait:    4 * time.Second,
	}
}

const (
	besideRate = 200 // fires a second of the app that stays on time
	hangs      = 30 * time.Second
)

// TestAnAppThatHangsDelaysNoOther: its endpoint holds every call for 30 s. It takes its share of
// each executor's calls, and what cannot run waits elsewhere.
func TestAnAppThatHangsDelaysNoOther(t *testing.T) { //nolint:tparallel // onQuiet decides
	onQuiet(t, func(t *testing.T, w *world, o isolation) {
		noisy := w.beside("hangs")
		w.rcv.Script("/hang", receiver.Script{Delay: hangs})
		for i := range o.hanging {
			_, _, err := noisy.api.Create(t.Context(), client.NewTimer{
				App:      noisy.app,
				Name:     fmt.Sprintf("hang-%d", i),
				Schedule: client.Cron(everySecond),
				Status:   "active",
				Target: client.Post(
					w.rcv.URL("/hang"),
				),
				Retry: &client.Retry{Attempts: 1, Timeout: "31s"},
			})
			require.NoError(t, err)
		}
		from := soon(10 * time.Second)
		quiet := w.quiet(t, from, o.pressed)
		pauseUntil(t, from.Add(o.pressed))
		require.NotEmpty(t, w.rcv.Script("/hang", receiver.Script{}))
		_, err := noisy.api.Freeze(t.Context(), noisy.app, "the story is over")
		require.NoError(t, err)
		w.onTime(t, o, "hangs", quiet)
	})
}

// TestAFloodDelaysNoOther: all its fires are due at one instant.
func TestAFloodDelaysNoOther(t *testing.T) { //nolint:tparallel // onQuiet decides
	onQuiet(t, func(t *testing.T, w *world, o isolation) {
		noisy := w.beside("floods")
		at := soon(o.making)
		flood := noisy.oneShots(t, "flood", "/flood", same(at, o.flood)...)
		const pressed = 10 * time.Second
		from := at.Add(-2 * time.Second)
		quiet := w.quiet(t, from, pressed)
		pauseUntil(t, from.Add(pressed))
		w.onTime(t, o, "floods", quiet)
		noisy.called(t, flood)
	})
}

// TestAFloodThatWaitsTakesNoMemory: its app may start only so many calls a second. What waits is in
// no executor's hands: the number of goroutines and the heap stay as they are. The limit is in
// force within a second.
func TestAFloodThatWaitsTakesNoMemory(t *testing.T) { //nolint:tparallel // onQuiet decides
	onQuiet(t, func(t *testing.T, w *world, o isolation) {
		noisy := w.beside("waits")
		require.NoError(t, w.api.PutSettings(t.Context(), noisy.app, client.Settings{Rate: o.rate}))
		at := soon(o.making)
		flood := noisy.oneShots(t, "flood", "/flood", same(at, o.flood)...)
		settled := 3 * time.Second // to look at all and put off most
		quiet := w.quiet(t, at, settled+o.wait)
		pauseUntil(t, at.Add(settled))
		first := w.weight(t)
		pauseUntil(t, at.Add(settled+o.wait))
		last, waiting := w.weight(t), o.flood-len(w.rcv.Of(flood...))
		// the look itself may take a while.
		most := o.rate * (time.Since(at) + 2*time.Second).Seconds()
		t.Logf(
			"%d of %d wait; goroutines %.0f, then %.0f; heap %.0f MB, then %.0f MB",
			waiting,
			o.flood,
			first.goroutines,
			last.goroutines,
			first.heapMB,
			last.heapMB,
		)
		require.Greater(t, waiting, o.flood/4, "the limit holds them back")
		require.LessOrEqual(t, float64(o.flood-waiting), most, "no more start than the limit lets")
		if o.p99 > 0 { // else other stories run beside it, with calls and timers of their own
			require.LessOrEqual(t, last.goroutines, first.goroutines+500)
			require.LessOrEqual(t, last.heapMB, first.heapMB+64)
		}
		w.onTime(t, o, "waits", quiet)
		require.NoError(t, w.api.PutSettings(t.Context(), noisy.app, client.Settings{}))
		noisy.called(t, flood)
	})
}

// onQuiet runs a story on each kind of cluster, with nothing beside it where lateness is judged.
func onQuiet(t *testing.T, s func(t *testing.T, w *world, o isolation)) {
	t.Helper()
	o := isolationSizes()
	if o.p99 == 0 {
		t.Parallel()
		onBoth(t, func(t *testing.T, w *world) { s(t, w, o) })
		return
	}
	for _, r := range runners {
		if !r.whole {
			t.Run(r.name, func(t *testing.T) {
				onOwn(
					t,
					r,
					cluster.Options{Replicas: 2},
					func(t *testing.T, w *world) { s(t, w, o) },
				)
			})
		}
	}
}

// beside returns the same deployment for another app.
func (w *world) beside(app string) *world {
	return &world{
		Cluster: w.Cluster,
		rcv:     w.rcv,
		api:     w.api,
		app:     w.app + "-" + app,
		led:     ledger.New(),
	}
}

// quiet makes timers that have besideRate fires a second, evenly, from an instant on for whole
// seconds, and enters them as due. Each has one a second: few are made quickly also on a machine
// that is busy.
func (w *world) quiet(t *testing.T, from time.Time, d time.Duration) []timer.ID {
	t.Helper()
	ids := make([]timer.ID, besideRate)
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i, first := range spread(from, time.Second, besideRate) {
		eg.Go(func() error {
			s := client.Every(time.Second)
			s.Anchor = client.At(first).At
			s.StartAt, s.MaxFires = s.Anchor, int64(d/time.Second)
			tm, _, err := w.api.Create(ctx, client.NewTimer{
				App:      w.app,
				Name:     fmt.Sprintf("quiet-%d", i),
				Schedule: s,
				Target:   client.Post(w.rcv.URL("/quiet")),
				Status:   "active",
			})
			if err != nil {
				return fmt.Errorf("creating quiet-%d: %w", i, err)
			}
			if time.Now().After(first) {
				return fmt.Errorf(
					"quiet-%d was made after %s, when it was due: this machine is too slow for the story",
					i,
					first,
				)
			}
			ids[i] = tm.TimerID()
			for due := first; due.Before(first.Add(d)); due = due.Add(time.Second) {
				w.led.One(ids[i], due, ledger.Must)
			}
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return ids
}

// onTime waits for the app that others press, and judges it.
func (w *world) onTime(t *testing.T, o isolation, what string, ids []timer.ID) {
	t.Helper()
	w.settle(t)
	calls := w.rcv.Of(ids...)
	q := calls.Lateness()
	t.Logf(
		"%s: another app %s: of %d fires at %d/s p50 %s, p99 %s, most %s late",
		w.Name(),
		what,
		len(calls),
		besideRate,
		q.P50,
		q.P99,
		q.Max,
	)
	if o.p99 > 0 {
		require.Less(t, q.P99, o.p99)
	}
	require.Less(t, q.Max, hangs, "none waits for the calls of another app")
}

// called waits until each of one-shots was called, and looks that none was twice.
func (w *world) called(t *testing.T, ids []timer.ID) {
	t.Helper()
	for last := time.Now().Add(patience); w.missing() > 0; pause(t, 100*time.Millisecond) {
		require.True(t, time.Now().Before(last), "%d of %d were not called", w.missing(), len(ids))
	}
	require.Empty(t, w.rcv.Of(ids...).Duplicates())
}

// weight is what the executors of a deployment take.
type weight struct{ goroutines, heapMB float64 }

func (w *world) weight(t *testing.T) (sum weight) {
	t.Helper()
	const mb = 1 << 20
	for _, p := range w.Role(cluster.Executor) {
		m, err := p.Metrics(t.Context())
		require.NoError(t, err)
		sum.goroutines += m.Sum("go_goroutines")
		sum.heapMB += m.Sum("go_memstats_heap_inuse_bytes") / mb
	}
	return sum
}
