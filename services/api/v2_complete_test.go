package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
)

// executor acts as an executor: it claims the fires of a timer.
type executor struct {
	*fixture

	session timer.ID
	tokens  *callback.CompletionTokens
}

func newExecutor(t *testing.T, change ...func(*api.Options)) *executor {
	t.Helper()
	ring := testKeyring(t)
	tokens, err := callback.NewCompletionTokens(ring.Derive("completion")...)
	require.NoError(t, err)
	e := &executor{session: 7, tokens: tokens}
	e.fixture = setup(
		t,
		append([]func(*api.Options){func(o *api.Options) { o.Secrets = ring }}, change...)...)
	require.NoError(t, e.store.OpenSession(t.Context(), e.session, store.ExecutorSession, "test"))
	return e
}

// held creates a timer and claims n of its fires.
func (e *executor) held(t *testing.T, app, name string, n int) []timer.Fire {
	t.Helper()
	body := strings.NewReplacer(`"shop"`, `"`+app+`"`, `"bill"`, `"`+name+`"`, `0 0 9 * * *`, `* * * * * *`, `{"app"`, `{"status":"active","app"`).
		Replace(v2Body)
	before := len(e.dispatched.all())
	e.create(t, 201, body)
	won, err := e.store.Claim(t.Context(), e.session, e.dispatched.all()[before:before+n])
	require.NoError(t, err)
	require.Len(t, won, n)
	return won
}

func (e *executor) accept(t *testing.T, f timer.Fire) {
	t.Helper()
	f.State, f.Attempt, f.RunAtMS = timer.FireAccepted, f.Attempt+1, time.Now().
		Add(time.Hour).
		UnixMilli()
	released, err := e.store.Release(
		t.Context(),
		e.session,
		[]timer.Fire{f},
		[]timer.Attempt{
			{FireID: f.FireID, N: f.Attempt, StartMS: time.Now().UnixMilli(), StatusCode: 202},
		},
	)
	require.NoError(t, err)
	require.Len(t, released, 1)
}

func (e *executor) complete(t *testing.T, id timer.FireID, token, status string) answer {
	t.Helper()
	return e.call(
		t,
		http.MethodPost,
		"/api/v2/fires/"+id.String()+"/complete",
		`{"token":"`+token+`","status":"`+status+`","message":"out of\npaper"}`,
		nil,
	)
}

func TestV2Complete(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	fires := e.held(t, "shop", "bill", 2)
	good := e.tokens.Token(fires[0].FireID, 1)

	for name, c := range map[string]struct {
		id     timer.FireID
		token  string
		status int
	}{
		"nobody's token":          {fires[0].FireID, "nonsense", 403},
		"another fire's token":    {fires[1].FireID, good, 403},
		"a token of another ring": {fires[0].FireID, otherToken(t, fires[0].FireID), 403},
		"no such fire":            {timer.FireID{Timer: 99, DueMS: 1}, e.tokens.Token(timer.FireID{Timer: 99, DueMS: 1}, 1), 404},
	} {
		require.Equal(t, c.status, e.complete(t, c.id, c.token, "delivered").status, name)
	}
	require.Equal(
		t,
		422,
		e.call(
			t,
			http.MethodPost,
			"/api/v2/fires/x/complete",
			`{"token":"x","status":"delivered"}`,
			nil,
		).status,
	)

	e.accept(t, fires[0])
	a := e.complete(t, fires[0].FireID, good, "delivered")
	require.Equal(t, 200, a.status, a.body)
	require.JSONEq(
		t,
		`{"id":"`+fires[0].FireID.String()+`","status":"delivered","repeated":false}`,
		a.body,
	)
	a = e.complete(t, fires[0].FireID, good, "delivered")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"repeated":true`)
	require.Equal(t, 409, e.complete(t, fires[0].FireID, good, "failed").status, "it is over")
	got, err := e.store.Fire(t.Context(), "shop", fires[0].FireID)
	require.NoError(t, err)
	require.Equal(t, timer.Delivered, got.Outcome.Kind)

	// A failure schedules the next attempt.
	e.accept(t, fires[1])
	before := len(e.dispatched.all())
	token := e.tokens.Token(fires[1].FireID, 1)
	require.Equal(t, 200, e.complete(t, fires[1].FireID, token, "failed").status)
	require.Equal(t, 200, e.complete(t, fires[1].FireID, token, "failed").status, "repeated")
	require.Greater(t, len(e.dispatched.all()), before)
	got, err = e.store.Fire(t.Context(), "shop", fires[1].FireID)
	require.NoError(t, err)
	require.Equal(
		t,
		timer.FireAsyncFailed,
		got.Open.State,
		"its retry policy says what becomes of it",
	)
	var shown struct {
		WaitsFor string `json:"waits_for"`
	}
	e.call(t, http.MethodGet, "/api/v2/fires/"+fires[1].FireID.String()+"?app=shop", "", nil).
		into(t, 200, &shown)
	require.Equal(t, "retry", shown.WaitsFor)
	last := got.Attempts[len(got.Attempts)-1]
	require.Equal(t, timer.FailureAsync, last.Failure)
	require.Equal(t, "completed as failed: out of paper", last.Error)
}

// TestV2CompleteEarly completes a fire before the executor records its acceptance.
func TestV2CompleteEarly(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	fires := e.held(t, "shop", "bill", 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTimer(500 * time.Millisecond)
		defer tick.Stop()
		<-tick.C
		e.accept(t, fires[0])
	})
	require.Equal(
		t,
		200,
		e.complete(t, fires[0].FireID, e.tokens.Token(fires[0].FireID, 1), "delivered").status,
	)
	wg.Wait()
	began := time.Now()
	a := e.complete(t, fires[1].FireID, e.tokens.Token(fires[1].FireID, 1), "delivered")
	require.Equal(t, 409, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Less(t, time.Since(began), 20*time.Second)
}

// TestV2CompletePlansTheNextOfAFixedDelay checks that a completion creates the successor of a fixed
// delay's fire.
func TestV2CompletePlansTheNextOfAFixedDelay(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	body := strings.NewReplacer(`{"kind":"cron","specs":["0 0 9 * * *"]}`, `{"kind":"fixed_delay","every":"1s"}`, `{"app"`, `{"status":"active","app"`).
		Replace(v2Body)
	e.create(t, 201, body)
	won, err := e.store.Claim(t.Context(), e.session, e.dispatched.all())
	require.NoError(t, err)
	require.Len(t, won, 1)
	e.accept(t, won[0])
	before := len(e.dispatched.all())
	require.Equal(
		t,
		200,
		e.complete(t, won[0].FireID, e.tokens.Token(won[0].FireID, 1), "delivered").status,
	)
	require.Len(t, e.dispatched.all(), before+1)
	next := e.dispatched.all()[before]
	require.Equal(t, won[0].Timer, next.Timer)
	require.Greater(t, next.DueMS, won[0].DueMS)
}

func otherToken(t *testing.T, id timer.FireID) string {
	t.Helper()
	r, err := encryption.ParseKeyring(encryption.NewKey("other"))
	require.NoError(t, err)
	tokens, err := callback.NewCompletionTokens(r.Derive("completion")...)
	require.NoError(t, err)
	return tokens.Token(id, 1)
}

// TestV2CompleteNeedsNoAPIKey checks that the token is sufficient.
func TestV2CompleteNeedsNoAPIKey(t *testing.T) {
	t.Parallel()
	f, _ := guarded(t)
	require.Equal(
		t,
		403,
		f.call(
			t,
			http.MethodPost,
			"/api/v2/fires/1-1/complete",
			`{"token":"x","status":"delivered"}`,
			nil,
		).status,
	)
	require.Equal(t, 401, f.call(t, http.MethodGet, "/api/v2/fires/1-1?app=shop", "", nil).status)
}

// TestV2WaitsFor checks that every state of an open fire is shown and documented.
func TestV2WaitsFor(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	e.call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).into(t, 200, &doc)
	enum := doc.Components.Schemas["FireBody"].Properties["waits_for"].Enum
	states := map[timer.FireState]string{
		timer.FireReady:       "run",
		timer.FireRetrying:    "retry",
		timer.FireWaiting:     "turn",
		timer.FireAccepted:    "completion",
		timer.FireDeferred:    "limits",
		timer.FireAsyncFailed: "retry",
	}
	fires := e.held(t, "shop", "bill", len(states))
	for state, want := range states {
		f := fires[0]
		fires = fires[1:]
		f.State, f.RunAtMS = state, time.Now().Add(time.Hour).UnixMilli()
		_, err := e.store.Release(t.Context(), e.session, []timer.Fire{f}, nil)
		require.NoError(t, err)
		var shown struct {
			WaitsFor string `json:"waits_for"`
		}
		e.call(t, http.MethodGet, "/api/v2/fires/"+f.FireID.String()+"?app=shop", "", nil).
			into(t, 200, &shown)
		require.Equal(t, want, shown.WaitsFor)
		require.Contains(t, enum, want)
	}
}
