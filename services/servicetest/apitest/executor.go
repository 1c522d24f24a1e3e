package apitest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
)

// Executor acts as an executor: it claims the fires of a timer.
type Executor struct {
	*Fixture

	Session timer.ID
	Tokens  *callback.CompletionTokens
}

// NewExecutor runs an API with a session that claims fires.
func NewExecutor(t *testing.T, change ...func(*api.Options)) *Executor {
	t.Helper()
	ring := Keyring(t)
	tokens, err := callback.NewCompletionTokens(ring.Derive("completion")...)
	require.NoError(t, err)
	e := &Executor{Session: 7, Tokens: tokens}
	e.Fixture = Setup(
		t,
		append([]func(*api.Options){func(o *api.Options) { o.Secrets = ring }}, change...)...)
	require.NoError(
		t,
		e.Store.OpenSession(
			t.Context(),
			store.Session{ID: e.Session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	return e
}

// Held creates a timer and claims n of its fires.
func (e *Executor) Held(t *testing.T, app, name string, n int) []timer.Fire {
	t.Helper()
	body := strings.NewReplacer(`"shop"`, `"`+app+`"`, `"bill"`, `"`+name+`"`, `0 0 9 * * *`, `* * * * * *`, `{"app"`, `{"status":"active","app"`).
		Replace(V2Body)
	before := len(e.Dispatched.All())
	e.Create(t, 201, body)
	return e.Claimed(t, e.Dispatched.All()[before:before+n])
}

// Claimed claims fires.
func (e *Executor) Claimed(t *testing.T, fires []timer.Fire) []timer.Fire {
	t.Helper()
	won, err := e.Store.Claim(t.Context(), e.Session, fires)
	require.NoError(t, err)
	require.Len(t, won, len(fires))
	return won
}

// Accept records that a receiver accepted a fire.
func (e *Executor) Accept(t *testing.T, f timer.Fire) {
	t.Helper()
	f.State, f.Attempt, f.RunAtMS = timer.FireAccepted, f.Attempt+1, time.Now().
		Add(time.Hour).
		UnixMilli()
	released, err := e.Store.Release(
		t.Context(),
		e.Session,
		[]timer.Fire{f},
		[]timer.Attempt{
			{FireID: f.FireID, N: f.Attempt, StartMS: time.Now().UnixMilli(), StatusCode: 202},
		},
	)
	require.NoError(t, err)
	require.Len(t, released, 1)
}

// Complete completes a fire.
func (e *Executor) Complete(t *testing.T, id timer.FireID, token, status string) Answer {
	t.Helper()
	return e.Call(
		t,
		http.MethodPost,
		"/api/v2/fires/"+id.String()+"/complete",
		`{"token":"`+token+`","status":"`+status+`","message":"out of\npaper"}`,
		nil,
	)
}

// OtherToken returns a token of another deployment.
func OtherToken(t *testing.T, id timer.FireID) string {
	t.Helper()
	r, err := encryption.ParseKeyring(encryption.NewKey("other"))
	require.NoError(t, err)
	tokens, err := callback.NewCompletionTokens(r.Derive("completion")...)
	require.NoError(t, err)
	return tokens.Token(id, 1)
}

// Finish records outcomes of fires that it claims.
func (f *Fixture) Finish(
	t *testing.T,
	session timer.ID,
	fires []timer.Fire,
	kinds ...timer.OutcomeKind,
) {
	t.Helper()
	won, err := f.Store.Claim(t.Context(), session, fires)
	require.NoError(t, err)
	require.Len(t, won, len(fires))
	var outcomes []timer.Outcome
	for i := range won {
		outcomes = append(outcomes, timer.Outcome{
			Fire:       won[i],
			Kind:       kinds[i],
			FinishedMS: time.Now().UnixMilli(),
			UntilMS:    won[i].DueMS,
			Count:      1,
			Attempts:   1,
		})
	}
	_, _, err = f.Store.Record(t.Context(), session, outcomes, nil)
	require.NoError(t, err)
}

// Fail records fires as failed, each after one recorded attempt.
func (e *Executor) Fail(t *testing.T, fires []timer.Fire, failure timer.Failure) {
	t.Helper()
	outcomes := make([]timer.Outcome, len(fires))
	attempts := make([]timer.Attempt, len(fires))
	for i, f := range fires {
		f.Attempt = 3
		attempts[i] = timer.Attempt{
			FireID:  f.FireID,
			N:       3,
			StartMS: time.Now().UnixMilli(),
			Failure: failure,
			Error:   fmt.Sprint("no answer: ", failure),
		}
		outcomes[i] = timer.Outcome{
			Fire:       f,
			Kind:       timer.Failed,
			Reason:     timer.ReasonExhausted,
			FinishedMS: time.Now().UnixMilli(),
			UntilMS:    f.DueMS,
			Count:      1,
			Attempts:   3,
			Failure:    failure,
		}
	}
	lost, _, err := e.Store.Record(t.Context(), e.Session, outcomes, attempts)
	require.NoError(t, err)
	require.Empty(t, lost)
}
