package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestThirdAttemptSucceeds checks an endpoint that answers 500 twice, then 200: one fire with three
// attempts of the same id.
func TestThirdAttemptSucceeds(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script(
			"/flaky",
			receiver.Script{Statuses: []int{500, 500, 200}, Body: "try later", Keep: true},
		)
		at := soon(5 * time.Second)
		id := env.oneShots(t, "flaky", "/flaky", at)[0]
		v := env.settle(t)
		require.Equal(t, 1, v.Delivered)

		calls := env.rcv.Of(id)
		require.Len(t, calls, 3)
		fire := timer.FireID{Timer: id, DueMS: at.UnixMilli()}
		for i, c := range calls {
			require.Equal(t, fire, c.Fire)
			require.EqualValues(t, i+1, c.Attempt)
		}
		require.GreaterOrEqual(t, calls[1].Arrived().Sub(calls[0].Arrived()), 950*time.Millisecond)
		require.GreaterOrEqual(t, calls[2].Arrived().Sub(calls[1].Arrived()), 1950*time.Millisecond)
		for _, r := range env.rcv.Requests("/flaky") {
			require.Equal(t, fire.String(), r.Header.Get("Idempotency-Key"))
		}

		f, err := env.api.Fire(t.Context(), env.app, fire)
		require.NoError(t, err)
		require.Equal(t, "delivered", f.Status)
		require.EqualValues(t, 3, f.Attempts)
		require.Len(t, f.AttemptLog, 3)
		for i, want := range []int32{500, 500, 200} {
			require.EqualValues(t, i+1, f.AttemptLog[i].N)
			require.Equal(t, want, f.AttemptLog[i].StatusCode)
		}
		require.Equal(t, "try later", f.AttemptLog[0].Excerpt)
	})
}

// TestLongRetryWaitReleasesFire checks that a wait of more than 5 s releases the fire, and that its
// later attempts come.
func TestLongRetryWaitReleasesFire(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script("/patient", receiver.Script{Statuses: []int{503, 200}})
		at := soon(5 * time.Second)
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "patient",
			Schedule: client.At(at),
			Target:   client.Post(env.rcv.URL("/patient")),
			Status:   "active",
			Retry:    &client.Retry{Attempts: 2, Wait: "8s"},
		})
		require.NoError(t, err)
		env.led.Add(tm.TimerID(), at, ledger.Must)
		v := env.settle(t)
		require.Equal(t, 1, v.Delivered)
		calls := env.rcv.Of(tm.TimerID())
		require.Len(t, calls, 2)
		require.GreaterOrEqual(t, calls[1].Arrived().Sub(calls[0].Arrived()), 7950*time.Millisecond)
	})
}

// TestExhaustedAttemptsAreDeadLettered checks the outcome failed and the published dead letter.
func TestExhaustedAttemptsAreDeadLettered(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script("/broken", receiver.Script{Statuses: []int{500}, Body: "out of order"})
		env.rcv.Script("/hangs", receiver.Script{Hang: true})
		at := soon(5 * time.Second)
		broken := env.oneShots(t, "broken", "/broken", at)[0]
		env.led.Add(broken, at, ledger.Fail)
		hangs, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "hangs",
			Schedule: client.At(at),
			Target:   client.Post(env.rcv.URL("/hangs")),
			Status:   "active",
			Retry:    &client.Retry{Attempts: 2, Wait: "100ms", Timeout: "3s"},
		})
		require.NoError(t, err)
		env.led.Add(hangs.TimerID(), at, ledger.Fail)
		v := env.settle(t)
		require.Equal(t, 2, v.Failed)
		require.Len(t, env.rcv.Of(broken), 3)
		require.Len(t, env.rcv.Of(hangs.TimerID()), 2)

		f, err := env.api.Fire(
			t.Context(),
			env.app,
			timer.FireID{Timer: broken, DueMS: at.UnixMilli()},
		)
		require.NoError(t, err)
		require.Equal(t, string(timer.ReasonExhausted), f.Reason)
		require.Len(t, f.AttemptLog, 3)
		require.Equal(t, "out of order", f.AttemptLog[2].Excerpt)

		if env.Servers() == nil {
			return // tests cannot read the embedded bus
		}
		for _, id := range []timer.ID{broken, hangs.TimerID()} {
			dead, err := env.Servers().DeadLetters(t.Context())
			require.NoError(t, err)
			require.Contains(t, dead, timer.FireID{Timer: id, DueMS: at.UnixMilli()}.String())
		}
	})
}
