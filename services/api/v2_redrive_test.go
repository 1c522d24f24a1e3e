package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/api"
)

// fail records fires as failed and publishes their dead letters.
func (e *executor) fail(t *testing.T, fires []timer.Fire, failure timer.Failure) {
	t.Helper()
	outcomes := make([]timer.Outcome, len(fires))
	deadLetters := make([]bus.Message, len(fires))
	for i, f := range fires {
		f.Attempt = 3
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
		payload, err := proto.Marshal(
			&carillonv1.DeadTask{
				Task: &carillonv1.Task{TimerId: int64(f.Timer), DueMs: f.DueMS, Series: f.Series},
				App:  "shop",
			},
		)
		require.NoError(t, err)
		deadLetters[i] = bus.Message{Payload: payload}
	}
	lost, _, err := e.store.Record(t.Context(), e.session, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.NoError(t, e.broker.Bus("executor").Publish(t.Context(), bus.TasksDead, deadLetters...))
}

type redriven struct {
	DryRun bool `json:"dry_run"`
	Series string
	Count  int
	More   bool
	Sample []struct {
		ID, Status, Failure string
		RedrivenAs          string `json:"redriven_as"`
	}
}

func (e *executor) redrive(t *testing.T, body string) (out redriven) {
	t.Helper()
	e.call(t, http.MethodPost, "/api/v2/apps/shop/redrives", body, nil).into(t, 200, &out)
	return out
}

func TestV2Redrive(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	bill, other := e.held(t, "shop", "bill", 4), e.held(t, "shop", "other", 3)
	e.fail(t, bill[:3], timer.FailureTimeout)
	e.fail(t, other, timer.FailureConnect)

	dry := e.redrive(t, `{"dry_run":true}`)
	require.True(t, dry.DryRun)
	require.Empty(t, dry.Series)
	require.Equal(t, 6, dry.Count)
	require.Len(t, dry.Sample, 6)
	require.Equal(t, "failed", dry.Sample[0].Status)
	id := bill[0].Timer.String()
	earlier := 0 // the two may begin in different seconds
	for _, f := range slices.Concat(bill[:3], other) {
		if f.DueMS < bill[2].DueMS {
			earlier++
		}
	}
	for body, want := range map[string]int{
		`{"dry_run":true,"timer":"` + id + `"}`:                        3,
		`{"dry_run":true,"failure":"connect"}`:                         3,
		`{"dry_run":true,"failure":"connect","timer":"` + id + `"}`:    0,
		`{"dry_run":true,"fires":["` + bill[1].FireID.String() + `"]}`: 1,
		// This fire is open.
		`{"dry_run":true,"fires":["` + bill[3].FireID.String() + `"]}`:                                        0,
		`{"dry_run":true,"from":"2200-01-01T00:00:00Z"}`:                                                      0,
		`{"dry_run":true,"to":"2020-01-01T00:00:00Z"}`:                                                        0,
		fmt.Sprintf(`{"dry_run":true,"to":%q}`, time.UnixMilli(bill[2].DueMS).UTC().Format(time.RFC3339Nano)): earlier,
	} {
		require.Equal(t, want, e.redrive(t, body).Count, body)
	}
	limited := e.redrive(t, `{"dry_run":true,"limit":2}`)
	require.Equal(t, 2, limited.Count)
	require.True(t, limited.More)

	before := len(e.dispatched.all())
	done := e.redrive(t, `{"timer":"`+id+`"}`)
	require.Equal(t, 3, done.Count)
	require.NotEmpty(t, done.Series)
	require.Len(t, e.dispatched.all(), before+3)
	again := fmt.Sprintf("%s-%s", bill[0].FireID, done.Series)
	require.Equal(t, again, done.Sample[0].RedrivenAs)
	var fire struct{ Cause, Status string }
	e.call(t, http.MethodGet, "/api/v2/fires/"+again+"?app=shop", "", nil).into(t, 200, &fire)
	require.Equal(t, "redrive", fire.Cause)
	require.Equal(t, "open", fire.Status)
	require.Equal(t, 3, e.redrive(t, `{"dry_run":true}`).Count, "what was redriven is left out")
	require.Equal(t, 6, e.redrive(t, `{"dry_run":true,"again":true}`).Count)

	// The topic follows: the dead letters of the three are acknowledged, the others remain.
	require.Eventually(t, func() bool {
		n, err := e.broker.Bus("api").Backlog(t.Context(), bus.TasksDead, bus.SubOperators)
		require.NoError(t, err)
		return n == 3
	}, 20*time.Second, 50*time.Millisecond)

	// Under a key the same request creates the same fires.
	key := map[string]string{"Idempotency-Key": "k1"}
	var first, second redriven
	e.call(t, http.MethodPost, "/api/v2/apps/shop/redrives", `{"failure":"connect"}`, key).
		into(t, 200, &first)
	e.call(t, http.MethodPost, "/api/v2/apps/shop/redrives", `{"failure":"connect"}`, key).
		into(t, 200, &second)
	require.Equal(t, 3, first.Count)
	require.Equal(t, first, second)

	for body, want := range map[string]string{
		`{"failure":"tired"}`: "body.failure", `{"fires":["x"]}`: "body.fires[0]", `{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: "body.to",
		`{"limit":10001}`: "body.limit", `{"timer":"x"}`: "body.timer",
		// An empty list of fires does not select all.
		`{"dry_run":true,"fires":[]}`: "body.fires", `{"dry_run":true,"timer":""}`: "body.timer",
		`{"dry_run":true,"failure":""}`: "body.failure", `{"dry_run":true,"from":""}`: "body.from", `{"dry_run":true,"to":""}`: "body.to",
	} {
		require.Equal(
			t,
			want,
			e.problem(t, 422, http.MethodPost, "/api/v2/apps/shop/redrives", body).Errors[0].Location,
		)
	}
	e.problem(t, 404, http.MethodPost, "/api/v2/apps/shop/redrives", `{"timer":"4711"}`)
	e.problem(t, 404, http.MethodPost, "/api/v2/apps/desk/redrives", `{"timer":"`+id+`"}`)
	e.problem(t, 422, http.MethodPost, "/api/v2/apps/carillon/redrives", `{}`)
}

// TestV2RedriveInPages redrives more than one page of the store.
func TestV2RedriveInPages(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	for name, n := range map[string]int{"a": 300, "b": 300, "c": 200} {
		e.fail(t, e.held(t, "shop", name, n), timer.FailureTimeout)
	}
	require.Equal(t, 800, e.redrive(t, `{"dry_run":true}`).Count)
	before := len(e.dispatched.all())
	got := e.redrive(t, `{"limit":700}`)
	require.Equal(t, 700, got.Count)
	require.True(t, got.More)
	require.Len(t, got.Sample, 20)
	require.Len(t, e.dispatched.all(), before+700)
	got = e.redrive(t, `{}`)
	require.Equal(t, 100, got.Count)
	require.False(t, got.More)
	seen := map[timer.FireID]bool{}
	for _, f := range e.dispatched.all()[before:] {
		require.False(t, seen[timer.FireID{Timer: f.Timer, DueMS: f.DueMS}])
		seen[timer.FireID{Timer: f.Timer, DueMS: f.DueMS}] = true
	}
	require.Len(t, seen, 800)
}

// breaking is a store that fails on the second page of a redrive.
type breaking struct {
	api.Store

	calls int
}

func (b *breaking) Redrive(
	ctx context.Context,
	q store.RedriveQuery,
	series timer.ID,
	dryRun bool,
) (store.RedriveResult, error) {
	if b.calls++; b.calls > 1 {
		return store.RedriveResult{}, timer.Unavailable("redriving", nil)
	}
	return b.Store.Redrive(ctx, q, series, dryRun)
}

// TestV2RedriveThatBreaksOff checks that dead letters of the pages before an error are
// acknowledged.
func TestV2RedriveThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := &breaking{}
	e := newExecutor(t, func(o *api.Options) { b.Store, o.Store = o.Store, b })
	for _, name := range []string{"a", "b"} {
		e.fail(t, e.held(t, "shop", name, 300), timer.FailureTimeout)
	}
	e.problem(t, 503, http.MethodPost, "/api/v2/apps/shop/redrives", `{}`)
	require.Eventually(t, func() bool {
		n, err := e.broker.Bus("api").Backlog(t.Context(), bus.TasksDead, bus.SubOperators)
		require.NoError(t, err)
		return n == 100
	}, 20*time.Second, 50*time.Millisecond)
}

// TestV2RedriveWhileTheBusIsUnavailable checks that redrives work without the bus.
func TestV2RedriveWhileTheBusIsUnavailable(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	n := 0
	quick(t, 2*time.Second, "redriving waits for the bus", func() {
		n++
		e.fail(t, e.held(t, "shop", fmt.Sprint("bill-", n), 2), timer.FailureTimeout)
		e.broker.Pause()
		defer e.broker.Resume()
		require.Equal(t, 2, e.redrive(t, `{}`).Count)
	})
}
