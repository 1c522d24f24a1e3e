package fires_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2Redrive(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	bill, other := e.Held(t, "shop", "bill", 4), e.Held(t, "shop", "other", 3)
	e.Fail(t, bill[:3], timer.FailureTimeout)
	e.Fail(t, other, timer.FailureConnect)

	dry := e.Redrive(t, `{"dry_run":true}`)
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
		require.Equal(t, want, e.Redrive(t, body).Count, body)
	}
	limited := e.Redrive(t, `{"dry_run":true,"limit":2}`)
	require.Equal(t, 2, limited.Count)
	require.True(t, limited.More)

	before := len(e.Dispatched.All())
	done := e.Redrive(t, `{"timer":"`+id+`"}`)
	require.Equal(t, 3, done.Count)
	require.NotEmpty(t, done.Series)
	require.Len(t, e.Dispatched.All(), before+3)
	again := fmt.Sprintf("%s-%s", bill[0].FireID, done.Series)
	require.Equal(t, again, done.Sample[0].RedrivenAs)
	var fire struct{ Cause, Status string }
	e.Call(t, http.MethodGet, "/api/v2/fires/"+again+"?app=shop", "", nil).Into(t, 200, &fire)
	require.Equal(t, "redrive", fire.Cause)
	require.Equal(t, "open", fire.Status)
	require.Equal(t, 3, e.Redrive(t, `{"dry_run":true}`).Count, "what was redriven is left out")
	require.Equal(t, 6, e.Redrive(t, `{"dry_run":true,"again":true}`).Count)

	// Under a key the same request creates the same fires.
	key := map[string]string{"Idempotency-Key": "k1"}
	var first, second apitest.Redriven
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives", `{"failure":"connect"}`, key).
		Into(t, 200, &first)
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives", `{"failure":"connect"}`, key).
		Into(t, 200, &second)
	require.Equal(t, 3, first.Count)
	require.Equal(t, first, second)
	series, err := timer.ParseID(first.Series)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), time.UnixMilli(series.TimeMS()), time.Minute,
		"executors take it for the instant of the request")
	later := fmt.Sprintf("%d.1.1-1-1", (time.Now().Add(time.Hour).UnixMilli()-1735689600000)<<12)
	e.Problem(t, 422, http.MethodPost, "/api/v2/apps/shop/redrives",
		`{"cursor":"`+input.EncodeCursor(input.RedriveCursor, later)+`"}`)

	for body, want := range map[string]string{
		`{"failure":"tired"}`: "body.failure", `{"fires":["x"]}`: "body.fires[0]", `{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: "body.to",
		`{"limit":10001}`: "body.limit",
		// An empty list of fires does not select all.
		`{"dry_run":true,"fires":[]}`: "body.fires", `{"dry_run":true,"timer":""}`: "body.timer",
		`{"dry_run":true,"failure":""}`: "body.failure", `{"dry_run":true,"from":""}`: "body.from", `{"dry_run":true,"to":""}`: "body.to",
	} {
		require.Equal(
			t,
			want,
			e.Problem(t, 422, http.MethodPost, "/api/v2/apps/shop/redrives", body).Errors[0].Location,
		)
	}
	e.Problem(t, 404, http.MethodPost, "/api/v2/apps/shop/redrives", `{"timer":"4711"}`)
	e.Problem(t, 404, http.MethodPost, "/api/v2/apps/desk/redrives", `{"timer":"`+id+`"}`)
	e.Problem(t, 422, http.MethodPost, "/api/v2/apps/carillon/redrives", `{}`)
}

// TestV2RedriveWhileFrozen checks that a dry run fails as the redrive would.
func TestV2RedriveWhileFrozen(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	e.Fail(t, e.Held(t, "shop", "bill", 1), timer.FailureTimeout)
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"test"}`, nil)
	for _, body := range []string{`{"dry_run":true}`, `{}`} {
		p := e.Problem(t, 409, http.MethodPost, "/api/v2/apps/shop/redrives", body)
		require.Contains(t, p.Detail, "the app shop is frozen", body)
	}
	require.Zero(t, e.Redrive(t, `{"dry_run":true,"failure":"connect"}`).Count, "there is nothing")
}

// TestV2RedriveInPages redrives more than one page of the store.
func TestV2RedriveInPages(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	for name, n := range map[string]int{"a": 300, "b": 300, "c": 200} {
		e.Fail(t, e.Held(t, "shop", name, n), timer.FailureTimeout)
	}
	require.Equal(t, 800, e.Redrive(t, `{"dry_run":true}`).Count)
	before := len(e.Dispatched.All())
	got := e.Redrive(t, `{"limit":700}`)
	require.Equal(t, 700, got.Count)
	require.True(t, got.More)
	require.Len(t, got.Sample, 20)
	require.Len(t, e.Dispatched.All(), before+700)
	got = e.Redrive(t, `{}`)
	require.Equal(t, 100, got.Count)
	require.False(t, got.More)
	seen := map[timer.FireID]bool{}
	for _, f := range e.Dispatched.All()[before:] {
		require.False(t, seen[timer.FireID{Timer: f.Timer, DueMS: f.DueMS}])
		seen[timer.FireID{Timer: f.Timer, DueMS: f.DueMS}] = true
	}
	require.Len(t, seen, 800)
}

// TestV2RedriveGoesOn redrives fires at an endpoint that still fails, by several requests with a
// cursor. Each fire is redriven once, and what failed again is listed.
func TestV2RedriveGoesOn(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		e := apitest.NewExecutor(t)
		e.Fail(t, e.Held(t, "shop", "a", 8), timer.FailureTimeout)
		total, cursor, series := 0, "", ""
		for range 3 {
			before := len(e.Dispatched.All())
			in := map[string]any{"limit": 3, "again": again}
			if cursor != "" {
				in["cursor"] = cursor
			}
			body, err := json.Marshal(in)
			require.NoError(t, err)
			out := e.Redrive(t, string(body))
			if series == "" {
				series = out.Series
			}
			require.Equal(t, series, out.Series)
			e.Fail(t, e.Claimed(t, e.Dispatched.All()[before:]), timer.FailureTimeout)
			total += out.Count
			cursor = out.Next
			require.Equal(t, out.More, cursor != "")
		}
		require.Equal(t, 8, total)
		require.Empty(t, cursor, "that was all")
		require.Equal(t, 8, e.Redrive(t, `{"dry_run":true}`).Count, "they failed again")
	}
	e := apitest.NewExecutor(t)
	for _, cursor := range []string{"x", "cjEuMg", "ZDEuMS0x"} {
		p := e.Problem(
			t, 422, http.MethodPost, "/api/v2/apps/shop/redrives", `{"cursor":"`+cursor+`"}`,
		)
		require.Equal(t, "body.cursor", p.Errors[0].Location, cursor)
	}
}

// TestV2RepeatedRedrive repeats a redrive under its key, after what it created has failed again,
// and another fire has. It redrives neither.
func TestV2RepeatedRedrive(t *testing.T) {
	t.Parallel()
	// Each reading of the API's clock is a later millisecond, and before the second failures.
	began, readings := time.Now().Add(-time.Minute), atomic.Int64{}
	e := apitest.NewExecutor(t, func(o *api.Options) {
		o.Now = func() time.Time {
			return began.Add(time.Duration(readings.Add(1)) * time.Millisecond)
		}
	})
	fires := e.Held(t, "shop", "a", 3)
	e.Fail(t, fires[:2], timer.FailureTimeout)
	key := map[string]string{"Idempotency-Key": "k"}
	redrive := func() (out apitest.Redriven) {
		e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives", `{}`, key).Into(t, 200, &out)
		return out
	}
	before := len(e.Dispatched.All())
	first := redrive()
	require.Equal(t, 2, first.Count)
	e.Fail(t, e.Claimed(t, e.Dispatched.All()[before:]), timer.FailureTimeout)
	e.Fail(t, fires[2:], timer.FailureTimeout)
	require.Equal(t, 3, e.Redrive(t, `{"dry_run":true}`).Count)

	require.Equal(t, first, redrive())
	require.Len(t, e.Dispatched.All(), before+2)
	require.Equal(t, 3, e.Redrive(t, `{"dry_run":true}`).Count)
}

// redriveKeyed redrives fires under an idempotency key.
func redriveKeyed(t *testing.T, e *apitest.Executor, query, body string) (out apitest.Redriven) {
	t.Helper()
	key := map[string]string{"Idempotency-Key": "k"}
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives"+query, body, key).Into(t, 200, &out)
	return out
}

// TestV2RedriveKeyIsOfOneSelection sends other selections under the key of a redrive. None is taken
// for a repetition.
func TestV2RedriveKeyIsOfOneSelection(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	fires := e.Held(t, "shop", "a", 4)
	e.Fail(t, fires[:2], timer.FailureConnect)
	a, b := fires[0].FireID.String(), fires[1].FireID.String()
	due := time.UnixMilli(fires[0].DueMS).UTC()
	body := fmt.Sprintf(`{"fires":[%q,%q],"failure":"connect","from":%q}`, a, b,
		due.Format(time.RFC3339))
	first := redriveKeyed(t, e, "", body)
	require.Equal(t, 2, first.Count)
	e.Fail(t, fires[2:], timer.FailureTimeout)

	before := len(e.Dispatched.All())
	for _, other := range []string{
		`{}`, `{"failure":"timeout"}`, `{"timer":"` + fires[0].Timer.String() + `"}`, `{"again":true}`,
		`{"fires":["` + a + `"]}`, `{"to":"2200-01-01T00:00:00Z"}`,
	} {
		for _, query := range []string{"", "?dry_run=true"} {
			answer := e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives"+query, other,
				map[string]string{"Idempotency-Key": "k"})
			var p apitest.V2Problem
			answer.Into(t, 409, &p)
			require.Equal(t, "header.Idempotency-Key", p.Errors[0].Location, other)
		}
	}
	require.Len(t, e.Dispatched.All(), before)
	require.Equal(t, 2, e.Redrive(t, `{"dry_run":true}`).Count, "they are still there")

	// The same selection in other words is a repetition.
	berlin := time.FixedZone("", 3600)
	require.Equal(t, first, redriveKeyed(t, e, "", fmt.Sprintf(
		`{"from":%q,"failure":"connect","again":false,"limit":9,"fires":[%q,%q,%q]}`,
		due.In(berlin).Format(time.RFC3339), b, a, a)))
}

// TestV2DryRunOfARedriveLooksTheKeyUp checks that a dry run under a key shows what the redrive under
// it would do, and does not take the key.
func TestV2DryRunOfARedriveLooksTheKeyUp(t *testing.T) {
	t.Parallel()
	began, readings := time.Now().Add(-time.Minute), atomic.Int64{}
	e := apitest.NewExecutor(t, func(o *api.Options) {
		o.Now = func() time.Time {
			return began.Add(time.Duration(readings.Add(1)) * time.Millisecond)
		}
	})
	fires := e.Held(t, "shop", "a", 3)
	e.Fail(t, fires[:1], timer.FailureConnect)
	dryRuns := [][2]string{
		{"?dry_run=true", `{"failure":"connect"}`}, {"", `{"dry_run":true,"failure":"connect"}`},
	}
	for _, dry := range dryRuns {
		other := redriveKeyed(t, e, "?dry_run=true", `{"again":true}`)
		require.Equal(t, 1, other.Count)
		require.Equal(t, 1, redriveKeyed(t, e, dry[0], dry[1]).Count)
	}
	first := redriveKeyed(t, e, "", `{"failure":"connect"}`)
	require.Equal(t, 1, first.Count)
	require.False(t, first.DryRun)
	e.Fail(t, fires[1:], timer.FailureConnect)
	for _, dry := range dryRuns {
		got := redriveKeyed(t, e, dry[0], dry[1])
		require.True(t, got.DryRun)
		require.Equal(t, 1, got.Count, "what failed since is left out")
		require.Equal(t, first.Sample, got.Sample)
	}
	// A frozen app takes no new fires, and the repetition makes none.
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", `{"reason":"test"}`, nil)
	require.Equal(t, 1, redriveKeyed(t, e, "?dry_run=true", `{"failure":"connect"}`).Count)
	require.Equal(t, first, redriveKeyed(t, e, "", `{"failure":"connect"}`))
	e.Problem(t, 409, http.MethodPost, "/api/v2/apps/shop/redrives?dry_run=true", `{}`)
}

// TestV2RedriveGoesOnUnderItsKey redrives fires by several requests, all under one key. Each of
// them, repeated, answers the same, also after what failed since.
func TestV2RedriveGoesOnUnderItsKey(t *testing.T) {
	t.Parallel()
	began, readings := time.Now().Add(-time.Minute), atomic.Int64{}
	e := apitest.NewExecutor(t, func(o *api.Options) {
		o.Now = func() time.Time {
			return began.Add(time.Duration(readings.Add(1)) * time.Millisecond)
		}
	})
	fires := e.Held(t, "shop", "a", 7)
	e.Fail(t, fires[:5], timer.FailureTimeout)
	made, total, cursor, series := len(e.Dispatched.All()), 0, "", ""
	var bodies []string
	var answers []apitest.Redriven
	for _, limit := range []int{2, 2, 1} {
		in := map[string]any{"limit": limit}
		if cursor != "" {
			in["cursor"] = cursor
		}
		body, err := json.Marshal(in)
		require.NoError(t, err)
		out := redriveKeyed(t, e, "", string(body))
		if series == "" {
			series = out.Series
		}
		require.Equal(t, series, out.Series)
		total, cursor = total+out.Count, out.Next
		bodies, answers = append(bodies, string(body)), append(answers, out)
	}
	require.Equal(t, 5, total)
	require.Empty(t, cursor)
	e.Claimed(t, e.Dispatched.All()[made:])
	e.Fail(t, fires[5:], timer.FailureTimeout)
	before := len(e.Dispatched.All())
	for i, body := range bodies {
		require.Equal(t, answers[i].Count, redriveKeyed(t, e, "?dry_run=true", body).Count, body)
		require.Equal(t, answers[i], redriveKeyed(t, e, "", body), body)
	}
	require.Len(t, e.Dispatched.All(), before)
	var p apitest.V2Problem
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives",
		`{"failure":"timeout","cursor":"`+answers[0].Next+`"}`,
		map[string]string{"Idempotency-Key": "k"}).Into(t, 409, &p)
	require.Equal(t, "header.Idempotency-Key", p.Errors[0].Location)
	require.Equal(t, 2, e.Redrive(t, `{"dry_run":true}`).Count)
}

// TestV2RedriveCreatesNoApp checks that a redrive of an unknown app is refused, and that its key
// does not create the app.
func TestV2RedriveCreatesNoApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	key := map[string]string{"Idempotency-Key": "k"}
	for _, query := range []string{"", "?dry_run=true"} {
		for _, header := range []map[string]string{nil, key} {
			a := f.Call(t, http.MethodPost, "/api/v2/apps/shpo/redrives"+query, `{}`, header)
			require.Equal(t, http.StatusNotFound, a.Status, a.Body)
		}
	}
	f.Call(t, http.MethodGet, "/api/v2/apps/shpo/settings", "", nil).Into(t, 404, &struct{}{})
}

// TestV2RedriveOfADeletedTimer checks that fires are refused whose timer was deleted, and that none
// of the others is redriven then.
func TestV2RedriveOfADeletedTimer(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	bill, other := e.Held(t, "shop", "bill", 2), e.Held(t, "shop", "other", 1)
	e.Fail(t, bill, timer.FailureTimeout)
	e.Fail(t, other, timer.FailureTimeout)
	id := bill[0].Timer.String()
	require.Equal(t, 204, e.Call(t, http.MethodDelete, apitest.TimerPath(id, ""), "", nil).Status)

	const path = "/api/v2/apps/shop/redrives"
	named := fmt.Sprintf(`{"fires":[%q,%q],"again":true}`, other[0].FireID, bill[1].FireID)
	for _, query := range []string{"", "?dry_run=true"} {
		p := e.Problem(t, 422, http.MethodPost, path+query, named)
		require.Len(t, p.Errors, 1)
		require.Equal(t, "body.fires[1]", p.Errors[0].Location)
		require.Contains(t, p.Detail, bill[1].FireID.String()+`, whose timer "bill" was deleted`)
	}
	p := e.Problem(t, 404, http.MethodPost, path, `{"timer":"`+id+`"}`)
	require.Equal(t, "body.timer", p.Errors[0].Location)
	require.Contains(t, p.Detail, "the timer "+id+" (bill) was deleted")
	p = e.Problem(t, 404, http.MethodPost, path, `{"timer":"bill"}`)
	require.Contains(t, p.Detail, `no timer "bill" in this app: give the name or the id`)
	p = e.Problem(t, 404, http.MethodGet, deadLettersPath+"?timer="+id, "")
	require.Equal(t, "query.timer", p.Errors[0].Location)
	p = e.Problem(t, 404, http.MethodPost, "/api/v2/apps/desk/redrives",
		fmt.Sprintf(`{"fires":[%q]}`, bill[1].FireID))
	require.NotContains(t, p.Detail, "deleted", "it is of another app")
	require.Equal(t, 1, e.Redrive(t, `{"timer":"other"}`).Count)
	require.Equal(t, 0, e.Redrive(t, `{}`).Count)
}

// breaking is a store that fails on the second page of a redrive.
type breaking struct {
	api.Store

	calls int
}

func (b *breaking) Redrive(
	ctx context.Context,
	q store.DeadLetterQuery,
) (store.RedriveResult, error) {
	if b.calls++; b.calls > 1 {
		return store.RedriveResult{}, timer.Unavailable("redriving", nil)
	}
	return b.Store.Redrive(ctx, q)
}

// TestV2RedriveThatBreaksOff checks that the pages before an error are redriven, and that the next
// redrive continues after them.
func TestV2RedriveThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := &breaking{}
	e := apitest.NewExecutor(t, func(o *api.Options) { b.Store, o.Store = o.Store, b })
	for _, name := range []string{"a", "b"} {
		e.Fail(t, e.Held(t, "shop", name, 300), timer.FailureTimeout)
	}
	before := len(e.Dispatched.All())
	e.Problem(t, 503, http.MethodPost, "/api/v2/apps/shop/redrives", `{}`)
	require.Len(t, e.Dispatched.All(), before+500)
	b.calls = 0
	require.Equal(t, 100, e.Redrive(t, `{}`).Count)
	redriven := map[timer.FireID]bool{}
	for _, f := range e.Dispatched.All()[before:] {
		redriven[timer.FireID{Timer: f.Timer, DueMS: f.DueMS}] = true
	}
	require.Len(t, redriven, 600, "each once")
	require.Len(t, e.Dispatched.All(), before+600)
}

// TestV2RedrivesAtOnce checks that of several redrives at once, one creates each fire.
func TestV2RedrivesAtOnce(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	for _, name := range []string{"a", "b"} {
		e.Fail(t, e.Held(t, "shop", name, 300), timer.FailureTimeout)
	}
	before := len(e.Dispatched.All())
	var wg sync.WaitGroup
	counts := make([]int, 4)
	for i := range counts {
		wg.Go(func() { counts[i] = e.Redrive(t, `{}`).Count })
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	require.Equal(t, 600, sum)
	require.Len(t, e.Dispatched.All(), before+600)
}

// overtaken is a store in which another redrive takes the first page of each one.
type overtaken struct {
	api.Store

	calls int
}

func (o *overtaken) Redrive(
	ctx context.Context,
	q store.DeadLetterQuery,
) (store.RedriveResult, error) {
	if o.calls++; o.calls > 1 {
		return o.Store.Redrive(ctx, q)
	}
	q.Series++
	out, err := o.Store.Redrive(ctx, q)
	return store.RedriveResult{Next: out.Next}, err
}

// TestV2RedriveBehindAnother checks that a redrive whose page another one takes goes on behind it.
func TestV2RedriveBehindAnother(t *testing.T) {
	t.Parallel()
	o := &overtaken{}
	e := apitest.NewExecutor(t, func(opts *api.Options) { o.Store, opts.Store = opts.Store, o })
	for _, name := range []string{"a", "b"} {
		e.Fail(t, e.Held(t, "shop", name, 300), timer.FailureTimeout)
	}
	out := e.Redrive(t, `{}`)
	require.Equal(t, 100, out.Count)
	require.False(t, out.More)
	require.Empty(t, out.Next)
}

// TestV2RedriveWhileTheBusIsUnavailable checks that redrives work without the bus.
func TestV2RedriveWhileTheBusIsUnavailable(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	n := 0
	apitest.Quick(t, 2*time.Second, "redriving waits for the bus", func() {
		n++
		e.Fail(t, e.Held(t, "shop", fmt.Sprint("bill-", n), 2), timer.FailureTimeout)
		e.Broker.Pause()
		defer e.Broker.Resume()
		require.Equal(t, 2, e.Redrive(t, `{}`).Count)
	})
}
