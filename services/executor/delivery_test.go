package executor_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// targetGone returns the result of a 410 response.
func targetGone(*callback.Request) callback.Result {
	return callback.Result{
		Class:      callback.Reject,
		Pause:      true,
		StatusCode: 410,
		Failure:    timer.FailureStatus,
		Error:      "answered 410 Gone",
	}
}

func TestGoneReceiverPausesItsTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: targetGone}
		start(t, parts, "one", r, nil)
		fires := everySecond(parts, 10, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(20 * time.Second)
		got := reasons(t, parts, fires)
		require.GreaterOrEqual(t, got["failed:gone"], 1)
		require.LessOrEqual(t, got["failed:gone"], 2, "at most one more, within a second")
		require.Equal(t, 10, got["failed:gone"]+got["skipped:paused"], "%v", got)
		states, err := parts.Store.States(t.Context(), []timer.ID{fires[0].Timer})
		require.NoError(t, err)
		require.Equal(t, timer.StatusPaused, states[0].Status)
		tm, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
		require.NoError(t, err)
		require.Equal(t, string(timer.ReasonGone), tm.PauseReason)
	})
}

// TestLateAnswerOfALostSessionPausesNothing checks an executor that reads a 410 after its session has
// expired, while another executor has delivered the fire.
func TestLateAnswerOfALostSessionPausesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		f := &frozen{Store: parts.Store}
		late, ok := &receiver{takes: 4 * time.Second, answer: targetGone}, new(receiver)
		start(t, parts, "late", late, func(o *executor.Options) { o.Store = f })
		fires := everySecond(parts, 3, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Until(time.UnixMilli(fires[0].DueMS + 100)))
		require.Equal(t, 1, late.total())
		f.stop.Store(true) // no renewal arrives, until the end
		start(t, parts, "ok", ok, nil)
		time.Sleep(20 * time.Second)
		require.Zero(t, late.running.Load(), "it has the answers")
		got, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
		require.NoError(t, err)
		require.Equal(t, timer.StatusActive, got.Status)
		require.Equal(t, map[string]int{"delivered": 3}, reasons(t, parts, fires))
	})
}

// TestOneGoneTargetOfSeveralDoesNotPauseTimer checks that the retry policy goes on while another
// target may still accept the fire.
func TestOneGoneTargetOfSeveralDoesNotPauseTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if q.Attempt == 1 {
				return callback.Result{
					Class:      callback.Retry,
					Pause:      true,
					StatusCode: 503,
					Failure:    timer.FailureStatus,
				}
			}
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		start(t, parts, "one", r, nil)
		fires := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(10 * time.Second)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires))
	})
}

// publishDue acts as the triggers: it publishes the tasks of released fires until none is open or
// the time is over.
func publishDue(t *testing.T, parts *servicetest.Parts, fires []timer.Fire, within time.Duration) {
	t.Helper()
	all := make([]timer.FireID, len(fires))
	for i := range fires {
		all[i] = fires[i].FireID
	}
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Second) {
		open, err := parts.Store.OpenAmong(t.Context(), all)
		require.NoError(t, err)
		if len(open) == 0 {
			return
		}
		due := slices.DeleteFunc(open, func(f timer.Fire) bool {
			return f.Owner != 0 || f.RunAtMS > time.Now().UnixMilli()
		})
		require.NoError(t, parts.Dispatch.Publish(t.Context(), due))
	}
}

// deadLetters collects the dead letters.
func deadLetters(t *testing.T, parts *servicetest.Parts) func() []*carillonv1.DeadTask {
	t.Helper()
	var mu sync.Mutex
	var deadLetters []*carillonv1.DeadTask
	c, err := parts.Bus("operator").Subscribe(t.Context(), bus.Subscription{
		Topic: bus.TasksDead, Name: "listeners", Concurrency: 1, MaxBatch: 1, Prefetch: 1,
	}, func(_ context.Context, b []bus.Message) []error {
		d := new(carillonv1.DeadTask)
		require.NoError(t, proto.Unmarshal(b[0].Payload, d))
		mu.Lock()
		defer mu.Unlock()
		deadLetters = append(deadLetters, d)
		return nil
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return func() []*carillonv1.DeadTask {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(deadLetters)
	}
}

// states is a store that counts reads of states.
type states struct {
	executor.Store
	reads atomic.Int64
}

func (s *states) States(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	s.reads.Add(1)
	return s.Store.States(ctx, ids)
}

// TestAChangeOfTheAppDuringACall checks that a change of the app during a call keeps the result of
// the call, and purges the states once.
func TestAChangeOfTheAppDuringACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		deadLetters := deadLetters(t, parts)
		r := &receiver{takes: 3 * time.Second, answer: func(q *callback.Request) callback.Result {
			if q.App == "a" {
				return targetGone(q)
			}
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		counted := &states{Store: publishedOnly{parts.Store}}
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = counted })
		fires := everySecond(parts, 10, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires[:1]))
		time.Sleep(time.Until(time.UnixMilli(fires[0].DueMS)) + 500*time.Millisecond)
		_, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Concurrent: 100}, 0)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		tm, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
		require.NoError(t, err)
		require.Equal(t, timer.StatusPaused, tm.Status)
		require.Len(t, deadLetters(), 1)
		require.Equal(t, "a", deadLetters()[0].GetApp())

		more := parts.Create("b", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:20]
		require.NoError(t, parts.Dispatch.Publish(t.Context(), more))
		time.Sleep(5 * time.Second)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Concurrent: 50}, 0)
		require.NoError(t, err)
		before := counted.reads.Load()
		time.Sleep(12 * time.Second)
		require.LessOrEqual(t, counted.reads.Load()-before, int64(2), "the states are purged once")
	})
}

// TestAChangeOfTheAppDuringACallOfAFixedDelay checks that a fixed delay with a calendar goes on
// although the cache lost its timer during a call.
func TestAChangeOfTheAppDuringACallOfAFixedDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		_, err := parts.Store.PutCalendar(
			t.Context(),
			"a",
			timer.Calendar{Name: "holidays", ExcludedDates: []string{"2001-01-01"}},
			0,
		)
		require.NoError(t, err)
		r := &receiver{takes: 2 * time.Second}
		start(t, parts, "one", r, nil)
		d := servicetest.Cron("", "http://127.0.0.1/")
		d.Schedule = timer.Schedule{
			Kind:      timer.KindFixedDelay,
			Every:     timer.Duration(4 * time.Second),
			MaxFires:  3,
			Calendars: []string{"holidays"},
		}
		parts.Dispatch.Committed(t.Context(), parts.Create("a", d))
		for i := range 30 {
			time.Sleep(time.Second)
			_, err := parts.Store.PutSettings(
				t.Context(),
				"a",
				store.AppSettings{Concurrent: 100 + i},
				0,
			)
			require.NoError(t, err)
		}
		require.Len(t, r.attempts(), 3)
	})
}

// breaking returns breakers that open for a minute at the first failure.
func breaking(t *testing.T) *limit.Breakers {
	t.Helper()
	b, err := limit.NewBreakers(limit.BreakerOptions{Failures: 1, Open: time.Minute})
	require.NoError(t, err)
	return b
}

func failing(*callback.Request) callback.Result {
	return callback.Result{
		Class:      callback.Retry,
		StatusCode: 500,
		Failure:    timer.FailureTimeout,
		Error:      "no answer",
	}
}

func TestFiresOfDeadEndpointFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: failing}
		start(t, parts, "one", r, func(o *executor.Options) { o.Breakers = breaking(t) })
		fires := parts.Create("a", soon(20, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		publishDue(t, parts, fires, 8*time.Minute)
		require.Equal(
			t,
			map[string]int{"failed:exhausted": 20},
			reasons(t, parts, fires),
			"three attempts, each at the latest in a round of probes",
		)
		calls, _ := r.seen()
		require.Less(t, len(calls), 20, "most attempts make no call")
		late := 0
		for _, f := range fires {
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.EqualValues(t, 1, rec.Attempts[0].N)
			require.Equal(t, rec.Attempts[0].StartMS-f.DueMS, rec.Outcome.LatenessMS)
			if rec.Outcome.LatenessMS > time.Second.Milliseconds() {
				late++
			}
		}
		require.Positive(t, late, "first attempts that were not sent")
	})
}

// TestFiresOfAnEndpointThatRecoversAreDelivered checks that no fire is lost when an endpoint
// recovers before its breaker closes, whether at its first attempt or a retry.
func TestFiresOfAnEndpointThatRecoversAreDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		began := time.Now()
		r := &receiver{
			takes: 1500 * time.Millisecond,
			answer: func(*callback.Request) callback.Result {
				if time.Since(began) < 6*time.Second {
					return callback.Result{
						Class:   callback.Retry,
						Failure: timer.FailureConnect,
						Error:   "refused",
					}
				}
				return callback.Result{Class: callback.Success, StatusCode: 200}
			},
		}
		start(t, parts, "one", r, nil)
		var defs []timer.Definition
		for i, at := range []time.Duration{time.Second, 2500 * time.Millisecond, 4 * time.Second} {
			for _, d := range soon(16, at) {
				d.Retry = timer.Retry{
					Attempts: 4 - i,
					Wait:     timer.Duration(time.Second),
					MaxWait:  timer.Duration(time.Minute),
					Factor:   1,
					Timeout:  timer.Duration(5 * time.Second),
				}
				defs = append(defs, d)
			}
		}
		for i := range defs[32:] {
			defs[32+i].Retry.Attempts = 1
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		publishDue(t, parts, fires, 3*time.Minute)
		require.Equal(t, map[string]int{"delivered": 48}, reasons(t, parts, fires))
	})
}

func TestNoAttemptAfterGiveUpAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		deadLetters := deadLetters(t, parts)
		r := &receiver{answer: failing}
		start(t, parts, "one", r, nil)
		d := soon(1, time.Second)[0]
		d.Retry = timer.Retry{
			Attempts:    100,
			Wait:        timer.Duration(time.Second),
			Factor:      1,
			GiveUpAfter: timer.Duration(20 * time.Second),
			Timeout:     timer.Duration(time.Second),
		}
		fires := parts.Create("a", d)
		// One call in 50 s.
		_, err := parts.Store.PutSettings(
			t.Context(),
			"a",
			store.AppSettings{Rate: 0.02, Burst: 1},
			0,
		)
		require.NoError(t, err)
		parts.Dispatch.Committed(t.Context(), fires)
		publishDue(t, parts, fires, 5*time.Minute)
		require.Equal(t, map[string]int{"failed:gave_up": 1}, reasons(t, parts, fires))
		require.Equal(t, 1, r.attempts()[fires[0].FireID])
		rec, err := parts.Store.Fire(t.Context(), "a", fires[0].FireID)
		require.NoError(t, err)
		require.Equal(t, timer.FailureTimeout, rec.Outcome.Failure)
		require.Len(t, rec.Attempts, 1)
		time.Sleep(time.Second)
		require.Len(t, deadLetters(), 1)
		require.Equal(t, "no answer", deadLetters()[0].GetLastError())
	})
}

// TestAppThatCannotSignFails checks that an app whose key cannot be decrypted affects no other app,
// and that its fires finish.
func TestAppThatCannotSignFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		policy := egress.NewPolicy(egress.Options{})
		start(t, parts, "one", r, func(o *executor.Options) { o.Egress = policy })
		first := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), first)
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, first))
		require.NoError(
			t,
			parts.Store.AddSigningKey(
				t.Context(),
				"a",
				store.SigningKey{ID: parts.IDs.Next(), App: "a", Kind: "hmac", Secret: "cs1.k.x"},
			),
		)

		others := parts.Create("b", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:40]
		require.NoError(t, parts.Dispatch.Publish(t.Context(), others))
		definitions := append(soon(1, 2*time.Second), soon(1, 2*time.Second)...)
		definitions[1].Target.Unsigned = true
		fires := parts.Create("a", definitions...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(20 * time.Second)
		fires, unsigned := fires[:1], fires[1:]
		require.Equal(t, map[string]int{"failed:exhausted": 1}, reasons(t, parts, fires))
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, unsigned),
			"an unsigned target needs no key")
		require.Zero(t, r.attempts()[fires[0].FireID], "never called without a signature")
		rec, err := parts.Store.Fire(t.Context(), "a", fires[0].FireID)
		require.NoError(t, err)
		require.Equal(t, timer.FailureInvalid, rec.Outcome.Failure)

		// An invalid rule is left out.
		_, err = parts.Store.PutSettings(
			t.Context(),
			"b",
			store.AppSettings{Allow: []string{"no rule at all", "10.0.0.0/8:8080"}},
			0,
		)
		require.NoError(t, err)
		time.Sleep(25 * time.Second)
		kinds := outcomes(t, parts, "b", others)
		require.Equal(t, 40, kinds[timer.Delivered])
	})
}

// recordingAdmission is an admission that refuses until a time.
type recordingAdmission struct {
	limit.Admission
	mu    sync.Mutex
	until time.Time
	step  time.Duration
	asks  []limit.Ask
}

func (g *recordingAdmission) Start(a limit.Ask) limit.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks = append(g.asks, limit.Ask{App: a.App, Returned: a.Returned, Priority: a.Priority})
	if now := time.Now(); now.Before(g.until) {
		return limit.Decision{At: now.Add(g.step)}
	}
	return g.Admission.Start(a)
}

func (g *recordingAdmission) requests() []limit.Ask {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asks)
}

// releases is a store that counts released fires.
type releases struct {
	executor.Store
	n atomic.Int64
}

func (s *releases) Release(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	as []timer.Attempt,
) ([]timer.Fire, error) {
	s.n.Add(int64(len(fires)))
	return s.Store.Release(ctx, session, fires, as)
}

func TestWaitsForALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		var failed atomic.Bool
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if failed.CompareAndSwap(false, true) {
				return failing(q)
			}
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		g := &recordingAdmission{Admission: limits(t, "one")}
		back := &releases{Store: parts.Store}
		start(
			t,
			parts,
			"one",
			r,
			func(o *executor.Options) { o.Store, o.Limits, o.MaxInflight = back, g, 16 },
		)
		fires := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(5 * time.Second)
		require.Equal(
			t,
			[]limit.Ask{
				{App: "a", Priority: limit.Normal},
				{App: "a", Returned: true, Priority: limit.Normal},
			},
			g.requests(),
			"a retry goes before new fires",
		)

		// A wait for a limit is not a misfire. A short one stays in flight, even if the set is
		// crowded.
		late := parts.Create(
			"a",
			servicetest.Every(time.Now().Add(time.Second), 0, 10, "http://127.0.0.1/")...)
		cron := everySecond(parts, 1, func(d *timer.Definition) {
			d.Misfire = timer.Misfire{Policy: timer.MisfireSkip, Grace: timer.Duration(time.Second)}
		})
		g.mu.Lock()
		g.until, g.step = time.Now().Add(5*time.Second), 100*time.Millisecond
		g.mu.Unlock()
		require.NoError(t, parts.Dispatch.Publish(t.Context(), append(late, cron...)))
		time.Sleep(15 * time.Second)
		require.Zero(t, back.n.Load())
		require.Equal(t, map[string]int{"delivered": 11}, reasons(t, parts, append(late, cron...)))
	})
}
