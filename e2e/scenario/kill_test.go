package scenario

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestP2NeverLostWhenServicesAreKilled kills one replica of each service in turn by SIGKILL, under
// a light load of crons and one-shots, and starts it again after two seconds. Then it kills all at
// once. Each fire has one outcome, and only calls in flight are repeated.
func TestP2NeverLostWhenServicesAreKilled(t *testing.T) {
	t.Parallel()
	runFaulty(t, func(t *testing.T, env *environment) {
		const down, between = 2 * time.Second, 2 * time.Second
		env.rcv.Script("/slow", receiver.Script{Delay: 300 * time.Millisecond})
		var crons []timer.ID
		from := time.Now()
		for i := range 8 {
			path := "/fast"
			if i%4 == 0 {
				path = "/slow"
			}
			// A slow machine's late fires are no misfires: each of them must be called.
			crons = append(
				crons,
				env.createCron(
					t,
					fmt.Sprintf("cron-%d", i),
					path,
					&client.Misfire{Grace: "1h"},
					nil,
					nil,
				),
			)
		}
		active := time.Now()
		env.oneShots(t, "shot", "/fast", spread(soon(10*time.Second), 40*time.Second, 400)...)
		pause(t, 2*time.Second)
		for _, r := range cluster.Roles() {
			victim := env.Role(r)[0]
			env.kill(t, victim)
			pause(t, down)
			env.start(t, victim)
			pause(t, between)
		}
		env.kill(t, env.Processes()...)
		pause(t, down)
		env.start(t, env.Processes()...)
		pause(t, between)
		until := time.Now()
		for _, id := range crons {
			env.led.AddEvery(id, time.Second, from, active, ledger.May)
			env.led.AddEvery(id, time.Second, active, until, ledger.Must)
		}
		env.settle(t)
	})
}

// TestP3DuplicatesOnlyInFlightCalls kills an executor that has calls in flight and other claimed
// fires. Only the calls in flight may be repeated, with the same fire id and key.
func TestP3DuplicatesOnlyInFlightCalls(t *testing.T) {
	t.Parallel()
	runFaulty(t, func(t *testing.T, env *environment) {
		const calls = 40
		done := env.oneShots(t, "done", "/done", repeat(soon(10*time.Second), calls)...)
		env.settle(t)

		// The calls stay in flight until the script changes.
		env.rcv.Script("/inflight", receiver.Script{Hang: true, Keep: true})
		at := soon(10 * time.Second)
		slow := env.oneShots(t, "slow", "/inflight", repeat(at, calls)...)
		held := env.oneShots(
			t,
			"held",
			"/held",
			spread(at.Add(1500*time.Millisecond), 2*time.Second, calls)...)
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(slow...).ByFire()) == calls },
			patience,
			10*time.Millisecond,
		)
		victim := busiest(t, env)
		env.kill(t, victim)
		begun := env.rcv.Of(held...).ByFire()
		requests := env.rcv.Requests("/inflight")
		env.rcv.Script("/inflight", receiver.Script{Keep: true})
		pause(t, time.Second)
		env.start(t, victim)
		env.settle(t)

		// Overdue fires are found 10 s after their due instant: wrong repetitions would come then.
		pause(t, 16*time.Second)
		v := env.check(t)
		env.requireKept(t, &v)
		require.Positive(t, v.Excused, "the killed executor had no calls in flight")
		require.LessOrEqual(t, v.Excused, calls+len(begun))
		require.Len(t, env.rcv.Of(done...), calls, "finished calls are not repeated")
		t.Logf("%d of %d held fires had started at the kill", len(begun), calls)
		for f, as := range env.rcv.Of(held...).ByFire() {
			require.True(
				t,
				len(as) == 1 || len(begun[f]) > 0,
				"%s had not started, and was called %d times",
				f,
				len(as),
			)
		}
		keys := make(map[string]int)
		for _, r := range append(requests, env.rcv.Requests("/inflight")...) {
			require.Equal(t, r.Header.Get("Carillon-Fire-Id"), r.Header.Get("Idempotency-Key"))
			keys[r.Header.Get("Idempotency-Key")]++
		}
		require.Len(t, keys, calls, "a repetition has the same key")
	})
}

// busiest returns the executor with the most calls in flight. Tasks of one instant are one batch,
// which one executor may claim completely.
func busiest(t *testing.T, env *environment) *cluster.Process {
	t.Helper()
	var best *cluster.Process
	most := -1.0
	for _, p := range env.Role(cluster.Executor) {
		m, err := p.Metrics(t.Context())
		require.NoError(t, err)
		if n := m.Sum("carillon_executor_active_attempts"); n > most {
			best, most = p, n
		}
	}
	return best
}

// TestP6AcceptedMeansDurable kills an API replica during creates. Each timer that got a 2xx is
// called once, and each timer that is called can be read.
func TestP6AcceptedMeansDurable(t *testing.T) {
	t.Parallel()
	runFaulty(t, func(t *testing.T, env *environment) {
		const writers = 16
		at := soon(12 * time.Second)
		var mu sync.Mutex
		accepted, refused := make(map[timer.ID]bool), 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil && time.Now().Before(at.Add(-2*time.Second)); n++ {
					tm, a, err := env.api.Create(ctx, client.NewTimer{
						App: env.app, Name: fmt.Sprintf("%d-%d", i, n), Schedule: client.At(at),
						Target: client.Post(env.rcv.URL("/durable")), Status: "active",
					})
					mu.Lock()
					switch {
					case err == nil && a.Status == http.StatusCreated:
						accepted[tm.TimerID()] = true
					case err != nil:
						refused++
					}
					mu.Unlock()
					if err != nil {
						pause(t, 50*time.Millisecond) // the replica does not listen
					}
				}
			})
		}
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(accepted) > writers
		}, time.Until(at), 50*time.Millisecond, "the api accepts timers")
		victim := env.Role(cluster.API)[0]
		env.kill(t, victim) // between two responses, with other requests in flight
		pause(t, 500*time.Millisecond)
		cancel()
		wg.Wait()
		env.start(t, victim)
		require.Positive(t, refused, "no request was in flight at the kill")
		for id := range accepted {
			env.led.Add(id, at, ledger.Must)
		}
		env.settle(t)
		for _, a := range env.rcv.Arrivals() {
			if !accepted[a.Fire.Timer] {
				_, err := env.api.Get(t.Context(), env.app, a.Fire.Timer)
				require.NoError(
					t,
					err,
					"a timer was called that cannot be read: it was never committed",
				)
			}
		}
	})
}
