package delivery

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// done is what a deliverer has left to the recorder.
type done struct {
	how      string
	kind     timer.OutcomeKind
	reason   timer.Reason
	state    timer.FireState
	attempts int
	failure  timer.Failure
}

type recorder struct{ done []done }

func (r *recorder) End(o timer.Outcome, _ *inflight.Entry, as ...timer.Attempt) {
	r.done = append(r.done, done{"end", o.Kind, o.Reason, o.State, len(as), o.Failure})
}

func (r *recorder) Hold(e *inflight.Entry, as ...timer.Attempt) {
	r.done = append(r.done, done{how: "hold", state: e.Fire.State, attempts: len(as)})
}

func (r *recorder) Release(e *inflight.Entry, as ...timer.Attempt) {
	r.done = append(r.done, done{how: "release", state: e.Fire.State, attempts: len(as)})
}

// fixture is a deliverer with a receiver that answers with the next of the answers.
type fixture struct {
	*Deliverer

	record  *recorder
	parts   *servicetest.Parts
	answers []callback.Result
	calls   int
	rechecks,
	permitted []*inflight.Entry
}

// Call implements callback.Caller.
func (f *fixture) Call(context.Context, *callback.Request) callback.Result {
	f.calls++
	r := f.answers[0]
	f.answers = f.answers[1:]
	return r
}

func setup(t *testing.T) *fixture {
	t.Helper()
	parts := servicetest.New(t, servicetest.Options{})
	f := &fixture{record: new(recorder), parts: parts}
	limits, err := limit.New(limit.Options{SharedState: memstate.New(nil), Executor: "one"})
	require.NoError(t, err)
	breakers, err := limit.NewBreakers(limit.BreakerOptions{Failures: 1, Probes: 1})
	require.NoError(t, err)
	wheel, set := hold.NewWheel(), inflight.New(1000, inflighttest.NeverSlow)
	f.Deliverer = New(Options{
		Store:    parts.Store,
		Planner:  parts.Planner,
		Caller:   f,
		Limits:   limits,
		Breakers: breakers,
		Clock:    parts.Clock,
		Counts:   parts.Counts,
		Inflight: set,
		Wheel:    wheel,
		Recorder: f.record,
		Order: order.New(order.Options{
			Clock: parts.Clock, Inflight: set, Wheel: wheel, Registerer: prometheus.NewRegistry(),
		}),
		Active:     NewActive(),
		Lookups:    new(lookup.Set),
		Calendars:  cache.New(cache.Options{Store: parts.Store}).Calendars,
		Committed:  parts.Dispatch.Committed,
		Permitted:  func(e *inflight.Entry) { f.permitted = append(f.permitted, e) },
		Callable:   func(*inflight.Entry) bool { return true },
		Recheck:    func(e *inflight.Entry) { f.rechecks = append(f.rechecks, e) },
		Starts:     func(time.Duration) {},
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	t.Cleanup(f.opts.Lookups.Close)
	return f
}

// entry returns a due fire in flight.
func (f *fixture) entry(t *testing.T, d timer.Definition) *inflight.Entry {
	t.Helper()
	now := time.Now().UnixMilli()
	es, _, err := f.opts.Inflight.Reserve(t.Context(), inflighttest.Epoch(t), []inflight.Arrival{{
		Fire: timer.Fire{
			FireID:  timer.FireID{Timer: f.parts.IDs.Next(), DueMS: now},
			RunAtMS: now,
		},
	}}, inflight.FromTask, now)
	require.NoError(t, err)
	e := es[0]
	e.App, e.Endpoint, e.Def = "a", "1 example.com", &d
	return e
}

func (f *fixture) deliver(e *inflight.Entry) {
	f.Deliver(e, &Timer{AsOf: time.Now(), App: &cache.App{Name: "a"}}, nil)
}

func oneShot() timer.Definition {
	return timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindAt}, Retry: timer.DefaultRetry(),
	}
}

// TestDeliver checks what the recorder gets after each kind of answer.
func TestDeliver(t *testing.T) {
	t.Parallel()
	retry := callback.Result{Class: callback.Retry, StatusCode: 503, Failure: timer.FailureStatus}
	later := retry
	later.RetryAfter = time.Hour
	for name, c := range map[string]struct {
		answer callback.Result
		want   done
	}{
		"delivered": {
			callback.Result{Class: callback.Success, StatusCode: 200},
			done{how: "end", kind: timer.Delivered},
		},
		"rejected": {
			callback.Result{Class: callback.Reject, Failure: timer.FailureStatus},
			done{
				"end", timer.Failed, timer.ReasonRejected, timer.FireReady, 1, timer.FailureStatus,
			},
		},
		"accepted": {
			callback.Result{Class: callback.Accepted, CompleteWithin: time.Minute},
			done{how: "release", state: timer.FireAccepted, attempts: 1},
		},
		"retried soon":  {retry, done{how: "hold", state: timer.FireRetrying, attempts: 1}},
		"retried later": {later, done{how: "release", state: timer.FireRetrying, attempts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				f.answers = []callback.Result{c.answer}
				f.deliver(f.entry(t, oneShot()))
				require.Equal(t, 1, f.calls)
				require.Equal(t, []done{c.want}, f.record.done)
			})
		})
	}
}

// TestAnOpenBreakerDefers checks that a fire whose endpoint fails for others is not called, and
// counts as attempted only once a later probe has failed too.
func TestAnOpenBreakerDefers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		refused := callback.Result{Class: callback.Retry, Failure: timer.FailureConnect}
		f.answers = []callback.Result{refused, refused}
		f.deliver(f.entry(t, oneShot()))
		waits := f.entry(t, oneShot())
		time.Sleep(time.Millisecond)
		f.deliver(waits)
		require.Equal(t, 1, f.calls)
		require.EqualValues(t, 0, waits.Fire.Attempt)
		require.NotZero(t, waits.DeferredSince(timer.WaitBreaker))
		time.Sleep(time.Minute)
		f.deliver(f.entry(t, oneShot())) // the probe
		require.Equal(t, 2, f.calls)
		f.deliver(waits)
		require.Equal(t, 2, f.calls)
		require.EqualValues(t, 1, waits.Fire.Attempt)
		require.Equal(t, timer.FireRetrying, waits.Fire.State)
	})
}

// TestRefusedFiresHaveNoLateness checks that a fire none of whose several targets was called keeps
// the lateness of its row, which is 0 if no attempt has begun.
func TestRefusedFiresHaveNoLateness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.opts.Caller = callback.Callers{timer.KindHTTP: f}
		def := oneShot()
		def.Mode = timer.ModeAll
		def.Targets = []timer.Target{{Kind: timer.KindHTTP, URL: "http://one/"}}
		endpoint := cache.EndpointOf(0, &def.Targets[0])
		_, probe := f.opts.Breakers.Allow(endpoint)
		f.opts.Breakers.Report(endpoint, probe, false)
		for _, before := range []int64{0, 500} {
			e := f.entry(t, def)
			e.Endpoint, e.Fire.FirstLatenessMS = "", before
			time.Sleep(time.Second)
			f.deliver(e)
			require.NotZero(t, e.DeferredSince(timer.WaitBreaker))
			require.Equal(t, before, e.Fire.FirstLatenessMS)
		}
		require.Zero(t, f.calls)
	})
}

// TestAnOldStateIsDecidedAgain checks that no call starts with a state that is too old for P5, or
// without a session.
func TestAnOldStateIsDecidedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		old, unowned := f.entry(t, oneShot()), f.entry(t, oneShot())
		at := time.Now().Add(-cache.MaxAgeAtCall)
		f.Deliver(old, &Timer{AsOf: at, App: &cache.App{Name: "a"}}, nil)
		unowned.Epoch.Fence()
		f.deliver(unowned)
		require.Zero(t, f.calls)
		require.Equal(t, []*inflight.Entry{old, unowned}, f.rechecks)
	})
}

// TestDecisiveFailures checks which of several targets' records says why the last attempt failed.
func TestDecisiveFailures(t *testing.T) {
	t.Parallel()
	record := func(n int32, f timer.Failure) timer.Attempt { return timer.Attempt{N: n, Failure: f} }
	failedOver := []timer.Attempt{
		record(1, timer.FailureTimeout),
		record(2, timer.FailureStatus),
		record(2, timer.FailureNone), // accepted
	}
	completed := append(slices.Clone(failedOver), record(2, timer.FailureAsync))
	for name, c := range map[string]struct {
		mode    timer.Mode
		records []timer.Attempt
		want    timer.Failure
	}{
		"completed as failed": {timer.ModeAny, completed, timer.FailureAsync},
		"one target":          {"", completed[3:], timer.FailureAsync},
		"any: the last": {
			timer.ModeAny,
			[]timer.Attempt{record(2, timer.FailureConnect), record(2, timer.FailureStatus)},
			timer.FailureStatus,
		},
		"all: the first": {
			timer.ModeAll,
			[]timer.Attempt{record(2, timer.FailureConnect), record(2, timer.FailureStatus)},
			timer.FailureConnect,
		},
		"of an earlier attempt": {timer.ModeAny, failedOver[:1], timer.FailureNone},
	} {
		var d timer.Definition
		d.Mode = c.mode
		e := &inflight.Entry{Fire: timer.Fire{Attempt: 2}, Def: &d}
		got := decisive(c.records, e)
		if c.want == timer.FailureNone {
			require.Nil(t, got, name)
			continue
		}
		require.NotNil(t, got, name)
		require.Equal(t, c.want, got.Failure, name)
	}
}
