package fires_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2CompleteOfAnAttemptBeyondThePolicy completes an attempt for the targets that the last one of
// the most that a policy allows did not try.
func TestV2CompleteOfAnAttemptBeyondThePolicy(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	for i, f := range e.Held(t, "shop", "bill", 2) {
		f.Attempt = []int32{20, 20 + timer.MaxTargets - 1}[i]
		e.Accept(t, f)
		a := e.Complete(t, f.FireID, e.Tokens.Token(f.FireID, f.Attempt+1), "delivered")
		require.Equal(t, 200, a.Status, a.Body)
	}
}

// TestV2OnlyTheTargetThatAcceptedCompletes checks that a target that did not answer in time may not
// complete what another one accepted.
func TestV2OnlyTheTargetThatAcceptedCompletes(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	f := e.Held(t, "shop", "bill", 1)[0]
	f.TargetBits = timer.TargetCompletes << 1
	e.Accept(t, f)
	for _, status := range []string{"delivered", "failed"} {
		a := e.Complete(t, f.FireID, e.Tokens.TargetToken(f.FireID, 1, 0), status)
		require.Equal(t, 409, a.Status, a.Body)
		require.Contains(t, a.Body, "another target accepted attempt 1")
	}
	a := e.Complete(t, f.FireID, e.Tokens.TargetToken(f.FireID, 1, 1), "delivered")
	require.Equal(t, 200, a.Status, a.Body)
}

func TestV2Complete(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	fires := e.Held(t, "shop", "bill", 2)
	good := e.Tokens.Token(fires[0].FireID, 1)

	for name, c := range map[string]struct {
		id     timer.FireID
		token  string
		status int
	}{
		"nobody's token":          {fires[0].FireID, "nonsense", 403},
		"another fire's token":    {fires[1].FireID, good, 403},
		"a token of another ring": {fires[0].FireID, apitest.OtherToken(t, fires[0].FireID), 403},
		"no such fire":            {timer.FireID{Timer: 99, DueMS: 1}, e.Tokens.Token(timer.FireID{Timer: 99, DueMS: 1}, 1), 404},
	} {
		require.Equal(t, c.status, e.Complete(t, c.id, c.token, "delivered").Status, name)
	}
	require.Equal(
		t,
		422,
		e.Call(
			t,
			http.MethodPost,
			"/api/v2/fires/x/complete",
			`{"token":"x","status":"delivered"}`,
			nil,
		).Status,
	)

	e.Accept(t, fires[0])
	a := e.Complete(t, fires[0].FireID, good, "delivered")
	require.Equal(t, 200, a.Status, a.Body)
	require.JSONEq(
		t,
		`{"id":"`+fires[0].FireID.String()+`","status":"delivered","repeated":false}`,
		a.Body,
	)
	a = e.Complete(t, fires[0].FireID, good, "delivered")
	require.Equal(t, 200, a.Status)
	require.Contains(t, a.Body, `"repeated":true`)
	a = e.Complete(t, fires[0].FireID, good, "failed")
	require.Equal(t, 409, a.Status, "it is over")
	require.Contains(t, a.Body, "it was completed as delivered before")
	got, err := e.Store.Fire(t.Context(), "shop", fires[0].FireID)
	require.NoError(t, err)
	require.Equal(t, timer.Delivered, got.Outcome.Kind)

	// A failure schedules the next attempt.
	e.Accept(t, fires[1])
	before := len(e.Dispatched.All())
	token := e.Tokens.Token(fires[1].FireID, 1)
	require.Equal(t, 200, e.Complete(t, fires[1].FireID, token, "failed").Status)
	require.Equal(t, 200, e.Complete(t, fires[1].FireID, token, "failed").Status, "repeated")
	require.Greater(t, len(e.Dispatched.All()), before)
	a = e.Complete(t, fires[1].FireID, token, "delivered")
	require.Equal(t, 409, a.Status, "another result")
	require.Contains(t, a.Body, "attempt 1 has ended")
	got, err = e.Store.Fire(t.Context(), "shop", fires[1].FireID)
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
	e.Call(t, http.MethodGet, "/api/v2/fires/"+fires[1].FireID.String()+"?app=shop", "", nil).
		Into(t, 200, &shown)
	require.Equal(t, "retry", shown.WaitsFor)
	last := got.Attempts[len(got.Attempts)-1]
	require.Equal(t, timer.FailureAsync, last.Failure)
	require.Equal(t, "completed as failed: out of paper", last.Error)
	trail := e.Call(t, http.MethodGet, "/api/v2/apps/shop/audit?action=complete", "", nil)
	require.Contains(t, trail.Body, `"kind":"token","address":"192.0.2.1"`)
	require.Contains(t, trail.Body, `"name":"bill"`)
}

// TestV2CompleteEarly completes a fire before the executor records its acceptance.
func TestV2CompleteEarly(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	fires := e.Held(t, "shop", "bill", 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTimer(500 * time.Millisecond)
		defer tick.Stop()
		<-tick.C
		e.Accept(t, fires[0])
	})
	require.Equal(
		t,
		200,
		e.Complete(t, fires[0].FireID, e.Tokens.Token(fires[0].FireID, 1), "delivered").Status,
	)
	wg.Wait()
	began := time.Now()
	a := e.Complete(t, fires[1].FireID, e.Tokens.Token(fires[1].FireID, 1), "delivered")
	require.Equal(t, 503, a.Status)
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Less(t, time.Since(began), 20*time.Second)
}

// TestV2CompletePlansTheNextOfAFixedDelay checks that a completion creates the successor of a fixed
// delay's fire.
func TestV2CompletePlansTheNextOfAFixedDelay(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	body := strings.NewReplacer(`{"kind":"cron","specs":["0 0 9 * * *"]}`, `{"kind":"fixed_delay","every":"1s"}`, `{"app"`, `{"status":"active","app"`).
		Replace(apitest.V2Body)
	e.Create(t, 201, body)
	won, err := e.Store.Claim(t.Context(), e.Session, e.Dispatched.All())
	require.NoError(t, err)
	require.Len(t, won, 1)
	e.Accept(t, won[0])
	before := len(e.Dispatched.All())
	require.Equal(
		t,
		200,
		e.Complete(t, won[0].FireID, e.Tokens.Token(won[0].FireID, 1), "delivered").Status,
	)
	require.Len(t, e.Dispatched.All(), before+1)
	next := e.Dispatched.All()[before]
	require.Equal(t, won[0].Timer, next.Timer)
	require.Greater(t, next.DueMS, won[0].DueMS)
}

// newerRelease is a store with definitions of a newer release.
type newerRelease struct{ api.Store }

func (s newerRelease) Definitions(
	ctx context.Context, keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defs, err := s.Store.Definitions(ctx, keys)
	for k := range defs {
		defs[k] = &timer.Definition{Unreadable: "a newer release wrote it"}
	}
	return defs, err
}

// TestV2CompleteOfANewerRelease checks that a fire is not completed by an api that cannot tell whether
// another one follows it.
func TestV2CompleteOfANewerRelease(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t, func(o *api.Options) { o.Store = newerRelease{o.Store} })
	e.Active(t, "chain", `{"kind":"fixed_delay","every":"1h"}`)
	won, err := e.Store.Claim(t.Context(), e.Session, e.Dispatched.All())
	require.NoError(t, err)
	require.Len(t, won, 1)
	e.Accept(t, won[0])
	id := won[0].FireID
	require.Equal(t, 503, e.Complete(t, id, e.Tokens.Token(id, 1), "delivered").Status)
	got, err := e.Store.Fire(t.Context(), "shop", id)
	require.NoError(t, err)
	require.NotNil(t, got.Open)
}

// TestV2CompleteThoughTheCalendarIsDeleted checks that a fire can be completed whose version names a
// calendar that is deleted.
func TestV2CompleteThoughTheCalendarIsDeleted(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	days := "/api/v2/calendars/days?app=shop"
	e.Calendar(t, 200, http.MethodPut, "days?app=shop", `{"excluded_dates":["2099-12-25"]}`)
	got, _ := e.Active(t, "chain", `{"kind":"fixed_delay","every":"1h","calendars":["days"]}`)
	won, err := e.Store.Claim(t.Context(), e.Session, e.Dispatched.All())
	require.NoError(t, err)
	require.Len(t, won, 1)
	e.Accept(t, won[0])
	e.Do(t, 200, http.MethodPatch, apitest.TimerPath(got.ID, ""),
		`{"schedule":{"kind":"fixed_delay","every":"1h"}}`)
	require.Less(t, e.Call(t, http.MethodDelete, days, "", nil).Status, 300)
	id := won[0].FireID
	done := e.Complete(t, id, e.Tokens.Token(id, 1), "delivered")
	require.Equal(t, 200, done.Status, done.Body)
}

// TestV2CompleteNeedsNoAPIKey checks that the token is sufficient.
func TestV2CompleteNeedsNoAPIKey(t *testing.T) {
	t.Parallel()
	f, _ := apitest.Guarded(t)
	require.Equal(
		t,
		403,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/fires/1-1/complete",
			`{"token":"x","status":"delivered"}`,
			nil,
		).Status,
	)
	require.Equal(t, 401, f.Call(t, http.MethodGet, "/api/v2/fires/1-1?app=shop", "", nil).Status)
}

// TestV2WaitsFor checks that every state of an open fire is shown and documented.
func TestV2WaitsFor(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	e.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, 200, &doc)
	enum := doc.Components.Schemas["FireBody"].Properties["waits_for"].Enum
	states := map[timer.FireState]string{
		timer.FireReady:       "run",
		timer.FireRetrying:    "retry",
		timer.FireWaiting:     "turn",
		timer.FireAccepted:    "completion",
		timer.FireDeferred:    "limits",
		timer.FireAsyncFailed: "retry",
	}
	fires := e.Held(t, "shop", "bill", len(states))
	for state, want := range states {
		f := fires[0]
		fires = fires[1:]
		f.State, f.RunAtMS = state, time.Now().Add(time.Hour).UnixMilli()
		_, err := e.Store.Release(t.Context(), e.Session, []timer.Fire{f}, nil)
		require.NoError(t, err)
		var shown struct {
			WaitsFor string `json:"waits_for"`
		}
		e.Call(t, http.MethodGet, "/api/v2/fires/"+f.FireID.String()+"?app=shop", "", nil).
			Into(t, 200, &shown)
		require.Equal(t, want, shown.WaitsFor)
		require.Contains(t, enum, want)
	}
}
