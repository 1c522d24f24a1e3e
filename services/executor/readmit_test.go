package executor_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestRaisedLimitsReadmitDeferredFires checks that raised limits reach the fires that wait in
// flight and in the store, in every executor.
func TestRaisedLimitsReadmitDeferredFires(t *testing.T) {
	t.Parallel()
	for _, raised := range []store.AppSettings{{}, {Rate: 1000}} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			busyMinutes(t, parts)
			r := new(receiver)
			start(t, parts, "one", r, nil)
			start(t, parts, "two", r, nil)
			_, err := parts.Store.PutSettings(
				t.Context(),
				"a",
				store.AppSettings{Rate: 1, Burst: 1},
				0,
			)
			require.NoError(t, err)
			fires := parts.Create("a", soon(200, time.Second)...)
			parts.Dispatch.Committed(t.Context(), fires)
			time.Sleep(5 * time.Second)
			require.Less(t, len(r.attempts()), 12)
			_, err = parts.Store.PutSettings(t.Context(), "a", raised, 0)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			require.Len(t, r.attempts(), 200)
			time.Sleep(time.Second)
			require.Equal(t, map[string]int{"delivered": 200}, reasons(t, parts, fires))
			n := paths(t, parts, fires)[timer.PathReadmit]
			require.Greater(t, n, 50, "deferred in the store")
		})
	}
}

// TestReadmittedFiresAreTakenOver checks that fires which a raised limit let run sooner are called
// again soon after their executor is lost, and not at the run times that they waited for before.
func TestReadmittedFiresAreTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		lost, r := &receiver{takes: time.Hour}, new(receiver)
		cut := &frozen{Store: parts.Store}
		start(t, parts, "lost", lost, func(o *executor.Options) { o.Store, o.MaxCalls = cut, 256 })
		_, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 1, Burst: 1}, 0)
		require.NoError(t, err)
		fires := parts.Create("a", soon(200, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(5 * time.Second)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		inCalls := len(lost.attempts())
		require.Greater(t, inCalls, 100)
		cut.stop.Store(true)
		start(t, parts, "other", r, nil)
		time.Sleep(10 * time.Second)
		calledAgain := 0
		for id := range r.attempts() {
			if lost.attempts()[id] > 0 {
				calledAgain++
			}
		}
		require.Equal(t, inCalls, calledAgain)
	})
}

// TestRaisedLimitsReadmitRetries is TestRaisedLimitsReadmitDeferredFires for second attempts.
func TestRaisedLimitsReadmitRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		began := time.Now()
		r := &receiver{answer: func(*callback.Request) callback.Result {
			if time.Since(began) < 5*time.Second {
				return callback.Result{
					Class:      callback.Retry,
					StatusCode: http.StatusTeapot,
					Failure:    timer.FailureStatus,
				}
			}
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		start(t, parts, "one", r, nil)
		defs := soon(20, time.Second)
		for i := range defs {
			defs[i].Retry.Wait = timer.Duration(10 * time.Second)
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(4 * time.Second)
		require.Len(t, r.attempts(), 20, "each failed once")
		_, err := parts.Store.PutSettings(
			t.Context(),
			"a",
			store.AppSettings{Rate: 0.01, Burst: 1},
			0,
		)
		require.NoError(t, err)
		time.Sleep(26 * time.Second)
		before, _ := r.seen()
		require.Less(t, len(before), 25)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		calls, _ := r.seen()
		require.Len(t, calls, 40)
	})
}

// TestRaisedLimitsReadmitGrantedFires checks that a fire which waited for its predecessor, was
// granted the slot and is then deferred by a limit is called once that limit is raised.
func TestRaisedLimitsReadmitGrantedFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		parts := servicetest.New(t, servicetest.Options{})
		queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
		fires := everySecond(parts, 2, func(d *timer.Definition) { d.Concurrency = queue })
		time.Sleep(3 * time.Second)
		// The executor before: the first fire is called, the second one waits for it and asks again
		// just when the first ends. Then that executor dies.
		died := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				ctx,
				store.Session{ID: died, Kind: store.ExecutorSession, Name: "died"},
			),
		)
		held, err := parts.Store.Claim(ctx, died, fires)
		require.NoError(t, err)
		require.Len(t, held, 2)
		ask := func(f timer.Fire) store.SlotResult {
			f.RunAtMS = time.Now().UnixMilli()
			out, err := parts.Store.AcquireSlots(
				ctx,
				died,
				[]store.SlotRequest{{Fire: f, Concurrency: queue}},
			)
			require.NoError(t, err)
			return out[0]
		}
		require.Equal(t, store.SlotGranted, ask(held[0]).SlotVerdict)
		queued := ask(held[1])
		require.Equal(t, store.SlotQueued, queued.SlotVerdict)
		again, err := parts.Store.Claim(ctx, died, []timer.Fire{queued.Fire})
		require.NoError(t, err)
		require.Len(t, again, 1)
		_, _, err = parts.Store.Record(ctx, died, []timer.Outcome{{
			Fire: held[0], Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(),
			UntilMS: held[0].DueMS, Count: 1, Attempts: 1, Serial: true,
		}}, nil)
		require.NoError(t, err)
		_, err = parts.Store.PutSettings(ctx, "a", store.AppSettings{Rate: 0.001, Burst: 1}, 0)
		require.NoError(t, err)

		r := new(receiver)
		start(t, parts, "one", r, nil)
		parts.Dispatch.Committed(ctx, parts.Create("a", soon(3, 0)...)) // use up the limit
		time.Sleep(time.Second)
		require.Equal(t, 1, r.total())
		require.NoError(t, parts.Store.CloseSession(ctx, died))
		time.Sleep(20 * time.Second)
		rec, err := parts.Store.Fire(ctx, "a", fires[1].FireID)
		require.NoError(t, err)

		require.Zero(t, rec.Open.Owner)
		require.Greater(
			t,
			rec.Open.RunAtMS,
			time.Now().Add(time.Minute).UnixMilli(),
			"deferred by the limit",
		)
		_, err = parts.Store.PutSettings(ctx, "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires[1:]))
	})
}

// TestSpareCallsReadmitDeferredFires checks that fires of an app do not wait until their retry-after
// times once its calls end sooner than before, neither in flight nor in the store.
func TestSpareCallsReadmitDeferredFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		busyMinutes(t, parts)
		recovers := time.Now().Add(6 * time.Second)
		r := &receiver{answer: func(*callback.Request) callback.Result {
			time.Sleep(time.Until(recovers) + 10*time.Millisecond)
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		ledger := memstate.New(nil)
		for _, name := range []string{"one", "two"} {
			l, err := limit.New(limit.Options{SharedState: ledger, Executor: name, Share: 8})
			require.NoError(t, err)
			start(t, parts, name, r, func(o *executor.Options) { o.Limits = l })
		}
		hanging := parts.Create("a", soon(20, time.Second)...) // in all calls of the app
		parts.Dispatch.Committed(t.Context(), hanging)
		time.Sleep(4 * time.Second)
		waiting := parts.Create("a", soon(300, time.Second)...)
		parts.Dispatch.Committed(t.Context(), waiting)
		fires := slices.Concat(hanging, waiting)
		time.Sleep(time.Until(recovers.Add(2 * time.Second)))
		require.Len(t, r.attempts(), len(fires))
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"delivered": len(fires)}, reasons(t, parts, fires))
		require.Greater(t, paths(t, parts, fires)[timer.PathReadmit], 20, "deferred in the store")
	})
}

// TestSpareCallsReadmitNoMoreThanCanStart checks that an executor whose calls end again takes only as
// many fires as it can call soon, and leaves the others to the other executors.
func TestSpareCallsReadmitNoMoreThanCanStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const share = 50
		parts := servicetest.New(t, servicetest.Options{})
		recovers := time.Now().Add(20 * time.Second)
		r := &receiver{answer: func(*callback.Request) callback.Result {
			time.Sleep(max(time.Until(recovers), time.Second))
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		l, err := limit.New(
			limit.Options{SharedState: memstate.New(nil), Executor: "one", Share: share},
		)
		require.NoError(t, err)
		start(t, parts, "one", r, func(o *executor.Options) { o.Limits, o.MaxCalls = l, 2*share })
		fires := parts.Create("a", soon(share, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(15 * time.Second)
		for range 10 {
			more := parts.Create("a", soon(200, 500*time.Millisecond)...)
			parts.Dispatch.Committed(t.Context(), more)
			fires = append(fires, more...)
		}
		time.Sleep(time.Until(recovers.Add(time.Second)))
		for range 10 {
			time.Sleep(time.Second)
			sessions, err := parts.Store.LiveSessions(t.Context())
			require.NoError(t, err)
			require.Len(t, sessions, 1)
			owned, err := parts.Store.Owned(
				t.Context(), []timer.ID{sessions[0].ID}, 0, math.MaxInt64, len(fires),
			)
			require.NoError(t, err)
			require.Less(t, len(owned), 10*share)
		}
		require.GreaterOrEqual(t, len(r.attempts()), 10*share, "one per second in each")
	})
}

// TestSpareCallsAdvanceFiresClaimedAhead checks that a deferred fire that was claimed before its
// retry-after time does not wait for that, once its app has calls to spare.
func TestSpareCallsAdvanceFiresClaimedAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const share = 8
		parts := servicetest.New(t, servicetest.Options{})
		recovers := time.Now().Add(20 * time.Second)
		r := &receiver{answer: func(*callback.Request) callback.Result {
			time.Sleep(time.Until(recovers) + 10*time.Millisecond)
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		l, err := limit.New(
			limit.Options{SharedState: memstate.New(nil), Executor: "one", Share: share},
		)
		require.NoError(t, err)
		start(t, parts, "one", r, func(o *executor.Options) { o.Limits = l })
		fires := parts.Create("a", soon(share, time.Second)...) // they hang
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(10 * time.Second)
		more := parts.Create("a", soon(100, time.Second)...)
		parts.Dispatch.Committed(t.Context(), more)
		time.Sleep(2 * time.Second)
		var deferred []timer.Fire
		for _, f := range more {
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			if rec.Open != nil && rec.Open.State == timer.FireDeferred && rec.Open.Owner == 0 {
				deferred = append(deferred, *rec.Open)
			}
		}
		require.Greater(t, len(deferred), 50)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), deferred))
		time.Sleep(time.Until(recovers.Add(time.Second)))
		require.Len(t, r.attempts(), share+len(more))
	})
}

// recovery is an executor whose calls of the app a hang for 20 s. Fires that are due meanwhile are
// deferred. No trigger brings back those whose retry-after times come while it hangs, so these few
// may come late.
type recovery struct {
	parts    *servicetest.Parts
	receiver *receiver
	recovers time.Time
	fires    []timer.Fire // the deferred ones
}

const hangingCalls = 8

func newRecovery(
	t *testing.T,
	settings store.AppSettings,
	waiting ...[]timer.Definition,
) *recovery {
	t.Helper()
	h := &recovery{
		parts:    servicetest.New(t, servicetest.Options{}),
		recovers: time.Now().Add(20 * time.Second),
	}
	h.receiver = &receiver{answer: func(*callback.Request) callback.Result {
		time.Sleep(time.Until(h.recovers) + 10*time.Millisecond)
		return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
	}}
	l, err := limit.New(
		limit.Options{SharedState: memstate.New(nil), Executor: "one", Share: hangingCalls},
	)
	require.NoError(t, err)
	if settings.Rate > 0 || settings.Concurrent > 0 {
		_, err := h.parts.Store.PutSettings(t.Context(), "a", settings, 0)
		require.NoError(t, err)
	}
	start(t, h.parts, "one", h.receiver, func(o *executor.Options) { o.Limits = l })
	hanging := h.parts.Create("a", soon(hangingCalls, time.Second)...)
	h.parts.Dispatch.Committed(t.Context(), hanging)
	time.Sleep(10 * time.Second)
	for _, defs := range waiting {
		fires := h.parts.Create("a", defs...)
		h.parts.Dispatch.Committed(t.Context(), fires)
		h.fires = append(h.fires, fires...)
		time.Sleep(time.Second)
	}
	time.Sleep(time.Second)
	return h
}

// after sleeps until some time after the recovery, and returns how many fires were called in all.
func (h *recovery) after(d time.Duration) int {
	time.Sleep(time.Until(h.recovers.Add(d)))
	return len(h.receiver.attempts())
}

// TestSpareCallsOfARateLimitedApp checks that deferred fires of an app use its rate to the full once
// its calls end again.
func TestSpareCallsOfARateLimitedApp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := store.AppSettings{Rate: 50, Burst: 10, Concurrent: hangingCalls}
		h := newRecovery(t, limits, soon(200, time.Second))
		require.Greater(t, h.after(2*time.Second), hangingCalls+75)
		require.Greater(t, h.after(5*time.Second), hangingCalls+190)
	})
}

// TestShareIsNoLimitOfTheApp checks that fires which wait because their executor has no more calls for
// one app are not said to wait for the limits of that app.
func TestShareIsNoLimitOfTheApp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newRecovery(t, store.AppSettings{Concurrent: 1000}, soon(100, time.Second))
		rec, err := h.parts.Store.Fire(t.Context(), "a", h.fires[99].FireID)
		require.NoError(t, err)
		require.Equal(t, timer.FireDeferred, rec.Open.State)
		require.Equal(t, timer.WaitWorker, rec.Open.WaitedFor)
	})
}

// TestSpareCallsOfAChangedApp checks that fires of an app whose settings are to be read again are not
// forgotten.
func TestSpareCallsOfAChangedApp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newRecovery(t, store.AppSettings{}, soon(200, time.Second))
		time.Sleep(time.Until(h.recovers.Add(-700 * time.Millisecond))) // before another fire asks
		allow := []string{"10.0.0.0/8"}
		_, err := h.parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Allow: allow}, 0)
		require.NoError(t, err)
		require.Greater(t, h.after(300*time.Millisecond), hangingCalls+190)
	})
}

// TestSpareCallsOfDeletedTimers checks that deferred fires which are skipped do not keep the others
// waiting.
func TestSpareCallsOfDeletedTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newRecovery(t, store.AppSettings{}, soon(100, time.Second), soon(100, time.Second))
		changes := make([]store.StatusChange, 100)
		for i := range changes {
			changes[i] = store.StatusChange{
				App: "a", ID: h.fires[i].Timer, Status: timer.StatusDeleted,
			}
		}
		_, err := h.parts.Store.SetStatus(t.Context(), changes, h.parts.Plan)
		require.NoError(t, err)
		require.Equal(t, hangingCalls+100, h.after(time.Second))
	})
}

// TestLowerLimitsEmptyTheWaitList checks that fires which were to wait for a moment do not stay in
// memory once the limits of their app are much lower. They would leave no room for other apps.
func TestLowerLimitsEmptyTheWaitList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		_, err := parts.Store.PutSettings(
			t.Context(), "a", store.AppSettings{Rate: 100, Burst: 1}, 0,
		)
		require.NoError(t, err)
		reg := prometheus.NewRegistry()
		start(t, parts, "one", r, func(o *executor.Options) { o.Registerer = reg })
		fires := parts.Create("a", soon(400, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(1500 * time.Millisecond)
		require.Greater(t, gauge(t, reg, "carillon_executor_inflight_fires"), 300.0)
		_, err = parts.Store.PutSettings(
			t.Context(), "a", store.AppSettings{Rate: 0.1, Burst: 1}, 0,
		)
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.Less(t, gauge(t, reg, "carillon_executor_inflight_fires"), 20.0)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.Equal(t, map[string]int{"delivered": 400}, reasons(t, parts, fires))
	})
}

// TestLargeBodiesCountUntilTheirAttempt checks that fires with large bodies use the room of the executor
// while they wait, and not during their calls.
func TestLargeBodiesCountUntilTheirAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		reg := prometheus.NewRegistry()
		start(t, parts, "one", &receiver{takes: 3 * time.Second}, func(o *executor.Options) {
			o.Registerer = reg
		})
		defs := soon(16, 2*time.Second) // an app has half of the 32 calls
		for i := range defs {
			defs[i].Target.Body = strings.Repeat("x", 1<<20)
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		const name = "carillon_executor_inflight_used_ratio"
		time.Sleep(time.Second)
		require.InDelta(t, 16.0/256, gauge(t, reg, name), 0.001, "they wait for their run time")
		time.Sleep(2 * time.Second)
		require.Less(t, gauge(t, reg, name), 0.001, "they are called")
		time.Sleep(5 * time.Second)
		require.Equal(t, map[string]int{"delivered": 16}, reasons(t, parts, fires))
	})
}

// TestRaisedLimitsCallNoRetryEarly checks that a fire which waited for limits before its first attempt,
// and now waits for its next one, keeps its time when limits are raised.
func TestRaisedLimitsCallNoRetryEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			return callback.Result{
				Class: callback.Retry, StatusCode: http.StatusServiceUnavailable,
				Failure: timer.FailureStatus, RetryAfter: 4 * time.Second,
			}
		}}
		rate := func(perSecond float64) {
			s := store.AppSettings{Rate: perSecond, Burst: 1}
			_, err := parts.Store.PutSettings(t.Context(), "a", s, 0)
			require.NoError(t, err)
		}
		rate(1)
		start(t, parts, "one", r, func(o *executor.Options) { o.MaxInflight = 20 })
		fires := parts.Create("a", soon(2, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		crowd := parts.Create("b", soon(8, 10*time.Second)...)
		parts.Dispatch.Committed(t.Context(), crowd)
		time.Sleep(2100 * time.Millisecond)
		require.Equal(t, 2, r.total())
		for _, perSecond := range []float64{2, 3, 4} {
			rate(perSecond)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		first := make(map[timer.FireID]time.Time)
		calls, at := r.seen()
		for i, c := range calls {
			if began, again := first[c.Fire]; again && c.Attempt == 2 {
				require.GreaterOrEqual(t, at[i].Sub(began), 4*time.Second)
			} else if !again {
				first[c.Fire] = at[i]
			}
		}
		require.Greater(t, len(calls), 2)
	})
}

// settingsSeen is an admission that tells which limits were set.
type settingsSeen struct {
	limit.Admission

	mu sync.Mutex
	of map[string]limit.Settings
}

func (s *settingsSeen) Set(app string, to limit.Settings) {
	s.mu.Lock()
	s.of[app] = to
	s.mu.Unlock()
	s.Admission.Set(app, to)
}

// TestRaisedLimitsOfManyAppsInACrowd checks that raised limits of many apps apply within a second, even
// if the executor has no room for the deferred fires of any of them, and that these start once it has.
func TestRaisedLimitsOfManyAppsInACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const apps, each, crowd = 12, 3, 15
		parts := servicetest.New(t, servicetest.Options{})
		leaves := time.Now().Add(20 * time.Second)
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if q.App == "crowd" {
				time.Sleep(time.Until(leaves))
			}
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		set := func(rate float64) {
			for i := range apps {
				_, err := parts.Store.PutSettings(
					t.Context(), fmt.Sprint("a", i), store.AppSettings{Rate: rate, Burst: 1}, 0,
				)
				require.NoError(t, err)
			}
		}
		set(0.01)
		seen := &settingsSeen{of: make(map[string]limit.Settings)}
		start(t, parts, "one", r, func(o *executor.Options) {
			seen.Admission = o.Limits
			o.Limits, o.MaxInflight = seen, 40
		})
		for i := range apps {
			parts.Dispatch.Committed(
				t.Context(), parts.Create(fmt.Sprint("a", i), soon(each, time.Second)...),
			)
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, apps, r.total(), "one of each app")
		parts.Dispatch.Committed(t.Context(), parts.Create("crowd", soon(crowd, time.Second)...))
		time.Sleep(3 * time.Second)
		set(1000)
		time.Sleep(time.Second)
		seen.mu.Lock()
		for i := range apps {
			require.InDelta(t, 1000, seen.of[fmt.Sprint("a", i)].Rate, 0.1, i)
		}
		seen.mu.Unlock()
		time.Sleep(time.Until(leaves.Add(10 * time.Second)))
		require.Len(t, r.attempts(), apps*each+crowd)
	})
}
