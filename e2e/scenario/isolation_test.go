package scenario

import (
	"fmt"
	"net/http"
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

// isolation is the load that one app causes while another app has 200 fires a second, which must
// stay on time.
type isolation struct {
	hanging    int           // timers that fire each second at an endpoint that answers after 30 s
	pressure   time.Duration // how long that lasts
	burst      int           // fires at one instant
	createTime time.Duration // how long it may take to create their timers
	rate       float64       // of the app whose burst is rate limited
	wait       time.Duration // how long that app is observed
	p99        time.Duration // of the app that stays on time; 0: logged, and not checked
}

// isolationSizes returns small sizes. With CARILLON_ISOLATION=full it returns the published sizes,
// and lateness is checked, which needs an idle machine.
func isolationSizes() isolation {
	if os.Getenv("CARILLON_ISOLATION") == "full" {
		return isolation{
			hanging:    500,
			pressure:   40 * time.Second,
			burst:      50_000,
			createTime: 110 * time.Second,
			rate:       1000,
			wait:       20 * time.Second,
			p99:        250 * time.Millisecond,
		}
	}
	return isolation{
		hanging:    100,
		pressure:   8 * time.Second,
		burst:      1500,
		createTime: 30 * time.Second,
		rate:       100,
		wait:       4 * time.Second,
	}
}

const (
	steadyRate = 200 // fires per second of the app that stays on time
	hangTime   = 30 * time.Second
)

// TestHangingAppDelaysNoOther checks an app whose endpoint holds every call for 30 s. The app uses
// its share of each executor's calls, and its other fires wait outside the executors.
func TestHangingAppDelaysNoOther(t *testing.T) { //nolint:tparallel // runIsolation decides
	runIsolation(t, func(t *testing.T, env *environment, o isolation) {
		noisy := env.withApp("hangs")
		env.rcv.Script("/hang", receiver.Script{Delay: hangTime})
		for i := range o.hanging {
			_, _, err := noisy.api.Create(t.Context(), client.NewTimer{
				App:      noisy.app,
				Name:     fmt.Sprintf("hang-%d", i),
				Schedule: client.Cron(everySecond),
				Status:   "active",
				Target: client.Post(
					env.rcv.URL("/hang"),
				),
				Retry: &client.Retry{Attempts: 1, Timeout: "31s"},
			})
			require.NoError(t, err)
		}
		from := soon(10 * time.Second)
		steady := env.createSteady(t, from, o.pressure)
		pauseUntil(t, from.Add(o.pressure))
		require.NotEmpty(t, env.rcv.Script("/hang", receiver.Script{}))
		_, err := noisy.api.Freeze(t.Context(), noisy.app, "the scenario is over")
		require.NoError(t, err)
		env.checkOnTime(t, o, "hangs", steady)
	})
}

// TestBurstDelaysNoOtherApp checks an app whose fires are all due at one instant.
func TestBurstDelaysNoOtherApp(t *testing.T) { //nolint:tparallel // runIsolation decides
	runIsolation(t, func(t *testing.T, env *environment, o isolation) {
		noisy := env.withApp("bursts")
		at := soon(o.createTime)
		const pressure = 10 * time.Second
		from := at.Add(-2 * time.Second)
		steady := env.createSteady(t, from, pressure)
		burst := noisy.createBurst(t, at, o.burst)
		pauseUntil(t, from.Add(pressure))
		env.checkOnTime(t, o, "bursts", steady)
		noisy.awaitCalledOnce(t, burst)
	})
}

// TestRateLimitedBurstTakesNoMemory checks an app with a rate limit. No executor holds its waiting
// fires, so the number of goroutines and the heap stay the same. The limit takes effect within a
// second.
func TestRateLimitedBurstTakesNoMemory(t *testing.T) { //nolint:tparallel // runIsolation decides
	runIsolation(t, func(t *testing.T, env *environment, o isolation) {
		noisy := env.withApp("waits")
		require.NoError(
			t,
			env.api.PutSettings(t.Context(), noisy.app, client.Settings{Rate: o.rate}),
		)
		at := soon(o.createTime)
		settled := 3 * time.Second // to claim all fires and defer most of them
		steady := env.createSteady(t, at, settled+o.wait)
		burst := noisy.createBurst(t, at, o.burst)
		pauseUntil(t, at.Add(settled))
		first := env.resources(t)
		pauseUntil(t, at.Add(settled+o.wait))
		last, waiting := env.resources(t), o.burst-len(env.rcv.Of(burst...))
		// Counting the calls may take a while.
		most := o.rate * (time.Since(at) + 2*time.Second).Seconds()
		t.Logf(
			"%d of %d wait; goroutines %.0f, then %.0f; heap %.0f MB, then %.0f MB",
			waiting,
			o.burst,
			first.goroutines,
			last.goroutines,
			first.heapMB,
			last.heapMB,
		)
		require.Greater(t, waiting, o.burst/4, "the limit holds them back")
		require.LessOrEqual(
			t,
			float64(o.burst-waiting),
			most,
			"no more calls start than the limit allows",
		)
		if o.p99 > 0 { // otherwise other scenarios run beside it, with their own calls and timers
			require.LessOrEqual(t, last.goroutines, first.goroutines+500)
			require.LessOrEqual(t, last.heapMB, first.heapMB+64)
		}
		env.checkOnTime(t, o, "waits", steady)
		require.NoError(t, env.api.PutSettings(t.Context(), noisy.app, client.Settings{}))
		noisy.awaitCalledOnce(t, burst)
	})
}

// runIsolation runs a scenario on each kind of cluster. Nothing runs beside it if lateness is
// checked.
func runIsolation(t *testing.T, s func(t *testing.T, env *environment, o isolation)) {
	t.Helper()
	o := isolationSizes()
	if o.p99 == 0 {
		t.Parallel()
		runOnAll(t, func(t *testing.T, env *environment) { s(t, env, o) })
		return
	}
	for _, r := range runners {
		if !r.indivisible {
			t.Run(r.name, func(t *testing.T) {
				runOnOwn(
					t,
					r,
					cluster.Options{Replicas: 2},
					func(t *testing.T, env *environment) { s(t, env, o) },
				)
			})
		}
	}
}

// withApp returns the same deployment for another app.
func (env *environment) withApp(app string) *environment {
	return &environment{
		Cluster: env.Cluster,
		rcv:     env.rcv,
		api:     env.api,
		app:     env.app + "-" + app,
		led:     ledger.New(),
	}
}

// createSteady creates timers with steadyRate fires a second, evenly spread from an instant on for
// full seconds, and adds their fires to the ledger. Each timer fires once a second, so that a busy
// machine has few to create.
func (env *environment) createSteady(t *testing.T, from time.Time, d time.Duration) []timer.ID {
	t.Helper()
	ids := make([]timer.ID, steadyRate)
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i, first := range spread(from, time.Second, steadyRate) {
		eg.Go(func() error {
			s := client.Every(time.Second)
			s.Anchor = client.At(first).At
			s.StartAt, s.MaxFires = s.Anchor, int64(d/time.Second)
			tm, _, err := env.api.Create(ctx, client.NewTimer{
				App:      env.app,
				Name:     fmt.Sprintf("quiet-%d", i),
				Schedule: s,
				Target:   client.Post(env.rcv.URL("/quiet")),
				Status:   "active",
			})
			if err != nil {
				return fmt.Errorf("creating quiet-%d: %w", i, err)
			}
			if time.Now().After(first) {
				return fmt.Errorf(
					"quiet-%d was created after %s, when it was due: this machine is too slow",
					i,
					first,
				)
			}
			ids[i] = tm.TimerID()
			for due := first; due.Before(first.Add(d)); due = due.Add(time.Second) {
				env.led.Add(ids[i], due, ledger.Must)
			}
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return ids
}

// createBurst creates one-shots that are due at one instant, a hundred by each request, and adds
// their fires to the ledger. A busy machine may refuse a request, which is sent again.
func (env *environment) createBurst(t *testing.T, at time.Time, n int) []timer.ID {
	t.Helper()
	const most = 100
	ids := make([]timer.ID, 0, n)
	for len(ids) < n {
		items := make([]client.NewTimer, min(most, n-len(ids)))
		for i := range items {
			items[i] = client.NewTimer{
				App: env.app, Name: fmt.Sprintf("burst-%d", len(ids)+i), Status: "active",
				Schedule: client.At(at), Target: client.Post(env.rcv.URL("/burst")),
			}
		}
		var created struct{ Items []struct{ ID string } }
		_, err := env.api.Do(t.Context(), http.MethodPost, "/api/v2/timers:batch", nil,
			map[string]any{"items": items}, &created)
		if err != nil && time.Now().Before(at) {
			t.Logf("creating a burst again: %v", err)
			pause(t, time.Second)
			continue
		}
		require.NoError(t, err)
		require.Len(t, created.Items, len(items))
		for _, c := range created.Items {
			id, err := timer.ParseID(c.ID)
			require.NoError(t, err)
			ids = append(ids, id)
			env.led.Add(id, at, ledger.Must)
		}
	}
	require.True(
		t,
		time.Now().Before(at),
		"the burst was created too late: this machine is too slow",
	)
	return ids
}

// checkOnTime waits for the fires of the app under load from others, and checks their lateness.
func (env *environment) checkOnTime(t *testing.T, o isolation, what string, ids []timer.ID) {
	t.Helper()
	env.settle(t)
	calls := env.rcv.Of(ids...)
	q := calls.Lateness()
	t.Logf(
		"%s: another app %s: of %d fires at %d/s p50 %s, p99 %s, most %s late",
		env.Name(),
		what,
		len(calls),
		steadyRate,
		q.P50,
		q.P99,
		q.Max,
	)
	if o.p99 > 0 {
		require.Less(t, q.P99, o.p99)
	}
	require.Less(t, q.Max, hangTime, "no fire waits for another app's calls")
}

// awaitCalledOnce waits until each one-shot was called, and checks that none was called twice.
func (env *environment) awaitCalledOnce(t *testing.T, ids []timer.ID) {
	t.Helper()
	for last := time.Now().Add(patience); env.missing() > 0; pause(t, 100*time.Millisecond) {
		require.True(
			t,
			time.Now().Before(last),
			"%d of %d were not called",
			env.missing(),
			len(ids),
		)
	}
	require.Empty(t, env.rcv.Of(ids...).Duplicates())
}

// resources is the memory use of a deployment's executors.
type resources struct{ goroutines, heapMB float64 }

func (env *environment) resources(t *testing.T) (sum resources) {
	t.Helper()
	const mb = 1 << 20
	for _, p := range env.Role(cluster.Executor) {
		m, err := p.Metrics(t.Context())
		require.NoError(t, err)
		sum.goroutines += m.Sum("go_goroutines")
		sum.heapMB += m.Sum("go_memstats_heap_inuse_bytes") / mb
	}
	return sum
}
