package scenario

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// once creates a one-shot with further fields in n, and adds its fire to the ledger.
func (env *environment) once(t *testing.T, n client.NewTimer, at time.Time) timer.FireID {
	t.Helper()
	n.App, n.Status, n.Schedule = env.app, "active", client.At(at)
	tm, _, err := env.api.Create(t.Context(), n)
	require.NoError(t, err)
	env.led.Add(tm.TimerID(), at, ledger.Must)
	return timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
}

// waitFor polls the fire until is returns true.
func (env *environment) waitFor(
	t *testing.T,
	id timer.FireID,
	is func(*client.Fire) bool,
) client.Fire {
	t.Helper()
	var f client.Fire
	for last := time.Now().Add(patience); ; pause(t, 100*time.Millisecond) {
		var err error
		if f, err = env.api.Fire(t.Context(), env.app, id); err == nil && is(&f) {
			return f
		}
		require.True(t, time.Now().Before(last), "fire %s does not change: %+v, %v", id, f, err)
	}
}

// TestSecretsAreNeverShown checks that a secret header reaches only the endpoint: no API response
// and no log of a process has it.
func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		const secret = "hunter2-of-the-secrets-scenario"
		env.rcv.Script(
			"/secret",
			receiver.Script{Statuses: []int{500, 200}, Body: "you sent " + secret, Keep: true},
		)
		target := client.Post(env.rcv.URL("/secret"))
		target.SecretHeaders = map[string]string{"X-Api-Key": secret}
		id := env.once(
			t,
			client.NewTimer{
				Name:   "secret",
				Target: target,
				Retry:  &client.Retry{Attempts: 2, Wait: "100ms"},
			},
			soon(5*time.Second),
		)
		env.settle(t)
		got := env.rcv.Requests("/secret")
		require.Len(t, got, 2)
		for _, r := range got {
			require.Equal(t, secret, r.Header.Get("X-Api-Key"))
		}
		tm, err := env.api.Get(t.Context(), env.app, id.Timer)
		require.NoError(t, err)
		require.Equal(t, "REDACTED", tm.Target.SecretHeaders["X-Api-Key"])
		list, _, err := env.api.List(t.Context(), env.app, "", 10, "")
		require.NoError(t, err)
		fire, err := env.api.Fire(t.Context(), env.app, id)
		require.NoError(t, err)
		require.Len(t, fire.AttemptLog, 2)
		shown, err := json.Marshal([]any{tm, list, fire})
		require.NoError(t, err)
		require.NotContains(t, string(shown), secret, "not even in the endpoint's response")
		for _, p := range env.Processes() {
			log, err := os.ReadFile(p.Log())
			require.NoError(t, err)
			require.NotContains(t, string(log), secret, p.Name)
			require.NotContains(t, string(log), client.AdminKey[17:], p.Name)
		}
	})
}

// TestReceiverCompletesLater checks asynchronous calls: the endpoint answers 202 and later reports
// the outcome with its token. A failure leads to a retry.
func TestReceiverCompletesLater(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script(
			"/later",
			receiver.Script{
				Statuses: []int{202},
				Header:   map[string]string{"Carillon-Accepted": "async"},
				Keep:     true,
			},
		)
		target := client.Post(env.rcv.URL("/later"))
		target.Async = "5m"
		at := soon(5 * time.Second)
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "later",
			Schedule: client.At(at),
			Target:   target,
			Retry:    &client.Retry{Attempts: 3, Wait: "100ms"},
			Status:   "active",
		}) // not in the ledger, because the ledger expects no attempt after a 202
		require.NoError(t, err)
		id := timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
		tokens := make([]string, 2)
		for n := range tokens {
			var calls []receiver.Request
			for last := time.Now().Add(patience); len(calls) <= n; pause(t, 20*time.Millisecond) {
				calls = env.rcv.Requests("/later")
				require.True(t, time.Now().Before(last), "call %d did not come", n+1)
			}
			tokens[n] = calls[n].Header.Get("Carillon-Complete-Token")
			require.NotEmpty(t, tokens[n])
			if n == 0 {
				open := env.waitFor(
					t,
					id,
					func(f *client.Fire) bool { return f.WaitsFor == "completion" },
				)
				require.Equal(t, "open", open.Status)
				_, err := env.api.Complete(t.Context(), id, tokens[0]+"x", "delivered", "")
				require.ErrorContains(t, err, "answer 403")
				_, err = env.api.Complete(t.Context(), id, tokens[0], "failed", "out of paper")
				require.NoError(t, err)
			}
		}
		require.NotEqual(t, tokens[0], tokens[1])
		// The completion may come before the 202 is recorded: the API waits.
		repeated, err := env.api.Complete(t.Context(), id, tokens[1], "delivered", "")
		require.NoError(t, err)
		require.False(t, repeated)
		repeated, err = env.api.Complete(t.Context(), id, tokens[1], "delivered", "")
		require.NoError(t, err)
		require.True(t, repeated)
		_, err = env.api.Complete(t.Context(), id, tokens[0], "delivered", "")
		require.ErrorContains(t, err, "answer 409")
		f := env.waitFor(t, id, func(f *client.Fire) bool { return f.Status == "delivered" })
		require.EqualValues(t, 2, f.Attempts)
		require.Len(t, env.rcv.Of(id.Timer), 2)
		said, err := json.Marshal(f.AttemptLog)
		require.NoError(t, err)
		require.Contains(t, string(said), "out of paper")
	})
}

// TestFailedFiresAreRedriven checks that the failed fires are listed as dead letters, a redrive fires
// them again, and they are off the list.
func TestFailedFiresAreRedriven(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script("/mended", receiver.Script{Statuses: []int{500}})
		at := soon(5 * time.Second)
		var ids []timer.FireID
		for _, name := range []string{"one", "two", "three"} {
			id := env.once(
				t,
				client.NewTimer{
					Name:   name,
					Target: client.Post(env.rcv.URL("/mended")),
					Retry:  &client.Retry{Attempts: 1},
				},
				at,
			)
			env.led.Add(id.Timer, at, ledger.Fail)
			ids = append(ids, id)
		}
		env.settle(t)
		dry, err := env.api.Redrive(
			t.Context(),
			env.app,
			client.Redrive{DryRun: true, Failure: "status"},
		)
		require.NoError(t, err)
		require.EqualValues(t, 3, dry.Count)
		listed, err := env.api.DeadLetters(t.Context(), env.app)
		require.NoError(t, err)
		require.Len(t, listed, 3)
		for _, l := range listed {
			id, err := timer.ParseFireID(l.ID)
			require.NoError(t, err)
			require.Contains(t, ids, id)
			require.Equal(t, "failed", l.Status)
			require.NotEmpty(t, l.LastError)
		}
		none, err := env.api.Redrive(
			t.Context(),
			env.app,
			client.Redrive{DryRun: true, Failure: "dns"},
		)
		require.NoError(t, err)
		require.Zero(t, none.Count)

		env.rcv.Script("/mended", receiver.Script{Keep: true})
		one, err := env.api.Redrive(
			t.Context(),
			env.app,
			client.Redrive{Fires: []string{ids[0].String()}},
		)
		require.NoError(t, err)
		require.EqualValues(t, 1, one.Count)
		keyed := client.Redrive{Key: "mended"}
		rest, err := env.api.Redrive(t.Context(), env.app, keyed)
		require.NoError(t, err)
		require.EqualValues(t, 2, rest.Count, "the first is already redriven")
		repeated, err := env.api.Redrive(t.Context(), env.app, keyed)
		require.NoError(t, err)
		require.Equal(t, rest, repeated)
		listed, err = env.api.DeadLetters(t.Context(), env.app)
		require.NoError(t, err)
		require.Empty(t, listed)
		for i, id := range ids {
			old, err := env.api.Fire(t.Context(), env.app, id)
			require.NoError(t, err)
			require.Equal(t, "failed", old.Status)
			again, err := timer.ParseFireID(old.RedrivenAs)
			require.NoError(t, err, i)
			f := env.waitFor(t, again, func(f *client.Fire) bool { return f.Status == "delivered" })
			require.Equal(t, "redrive", f.Cause)
			require.Less(t, f.LatenessMS, time.Minute.Milliseconds(), "counted from the request")
		}
		require.Len(t, env.rcv.Requests("/mended"), 3)
	})
}
