package executor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// statuses is a caller that answers each URL with its statuses in turn, and then repeats the last.
type statuses struct {
	mu      sync.Mutex
	answers map[string][]int32
	calls   map[string]int
}

func (s *statuses) Call(_ context.Context, r *callback.Request) callback.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.answers[r.Target.URL]
	status := all[min(s.calls[r.Target.URL], len(all)-1)]
	s.calls[r.Target.URL]++
	switch status {
	case 200:
		return callback.Result{StatusCode: status}
	case 410:
		return targetGone(r)
	default:
		return callback.Result{
			Class:      callback.Retry,
			StatusCode: status,
			Failure:    timer.FailureStatus,
			Error:      "other status",
		}
	}
}

// TestRetriesOfSeveralTargets checks that each of several targets has its own retries, whatever the
// others answer and whatever their order.
func TestRetriesOfSeveralTargets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		mode    timer.Mode
		answers [2][]int32 // of the two targets
		wait    time.Duration
		want    string
		calls   [2]int
		paused  bool
	}{
		{
			"any, the first is not retried",
			timer.ModeAny,
			[2][]int32{{404}, {503, 503, 200}},
			time.Second,
			"delivered",
			[2]int{1, 3},
			false,
		},
		{
			"any, the second is not retried",
			timer.ModeAny,
			[2][]int32{{503, 503, 200}, {404}},
			time.Second,
			"delivered",
			[2]int{3, 1},
			false,
		},
		{
			"any, none is retried",
			timer.ModeAny,
			[2][]int32{{404}, {404}},
			time.Second,
			"failed:not_retried",
			[2]int{1, 1},
			false,
		},
		{
			"any, one after the other",
			timer.ModeAny,
			[2][]int32{{404}, {503, 404}},
			time.Second,
			"failed:not_retried",
			[2]int{1, 2},
			false,
		},
		{
			"any, none accepts",
			timer.ModeAny,
			[2][]int32{{503}, {404}},
			time.Second,
			"failed:exhausted",
			[2]int{3, 1},
			false,
		},
		{
			"all, the first is not retried",
			timer.ModeAll,
			[2][]int32{{404}, {503, 200}},
			time.Second,
			"failed:not_retried",
			[2]int{1, 2},
			false,
		},
		{
			"all, the second is not retried",
			timer.ModeAll,
			[2][]int32{{503, 200}, {404}},
			time.Second,
			"failed:not_retried",
			[2]int{2, 1},
			false,
		},
		{
			"all, results kept in the store",
			timer.ModeAll,
			[2][]int32{{503, 200}, {404}},
			10 * time.Second,
			"failed:not_retried",
			[2]int{2, 1},
			false,
		},
		{
			"all, one accepts and one is retried",
			timer.ModeAll,
			[2][]int32{{200}, {503, 503, 200}},
			time.Second,
			"delivered",
			[2]int{1, 3},
			false,
		},
		{
			"all, one is gone and one is down",
			timer.ModeAll,
			[2][]int32{{410}, {503}},
			time.Second,
			"failed:gone",
			[2]int{1, 3},
			true,
		},
		{
			"all, the other is gone",
			timer.ModeAll,
			[2][]int32{{503}, {410}},
			10 * time.Second,
			"failed:gone",
			[2]int{3, 1},
			true,
		},
		{
			"all, one is gone and one is not retried",
			timer.ModeAll,
			[2][]int32{{410}, {404}},
			time.Second,
			"failed:gone",
			[2]int{1, 1},
			true,
		},
		{
			"all, one is gone and one accepts later",
			timer.ModeAll,
			[2][]int32{{410}, {503, 200}},
			time.Second,
			"failed:gone",
			[2]int{1, 2},
			true,
		},
		{
			"any, one is gone and one is down",
			timer.ModeAny,
			[2][]int32{{410}, {503}},
			time.Second,
			"failed:exhausted",
			[2]int{3, 3},
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := &statuses{
					answers: map[string][]int32{
						"http://one/": tt.answers[0],
						"http://two/": tt.answers[1],
					},
					calls: make(map[string]int),
				}
				start(
					t,
					parts,
					"one",
					&receiver{},
					func(o *executor.Options) {
						o.Caller = callback.Callers{timer.KindHTTP: r}
						o.Store = publishedOnly{parts.Store}
					},
				)
				fires := everySecond(parts, 1, func(d *timer.Definition) {
					d.Target = timer.Target{}
					d.Mode, d.Targets = tt.mode, []timer.Target{
						{Kind: timer.KindHTTP, URL: "http://one/"},
						{Kind: timer.KindHTTP, URL: "http://two/"},
					}
					d.Retry = timer.DefaultRetry()
					d.Retry.Wait, d.Retry.Factor, d.Retry.NoRetry = timer.Duration(
						tt.wait,
					), 1, timer.Statuses{
						{First: 404, Last: 404},
					}
				})
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				publishDue(t, parts, fires, time.Minute)
				require.Equal(t, map[string]int{tt.want: 1}, reasons(t, parts, fires))
				called := [2]int{r.calls["http://one/"], r.calls["http://two/"]}
				require.Equal(t, tt.calls, called)
				tm, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
				require.NoError(t, err)
				require.Equal(t, tt.paused, tm.Status == timer.StatusPaused)
			})
		})
	}
}

// TestGoneTargetWhenFireIsGivenUp checks that a 410 pauses the timer also if the fire ends while it
// waits for a limit of its app.
func TestGoneTargetWhenFireIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &statuses{
			answers: map[string][]int32{"http://one/": {503}, "http://two/": {410}},
			calls:   make(map[string]int),
		}
		start(
			t,
			parts,
			"one",
			&receiver{},
			func(o *executor.Options) { o.Caller = callback.Callers{timer.KindHTTP: r} },
		)
		d := soon(1, time.Second)[0]
		d.Target = timer.Target{}
		d.Mode, d.Targets = timer.ModeAll, []timer.Target{
			{Kind: timer.KindHTTP, URL: "http://one/"},
			{Kind: timer.KindHTTP, URL: "http://two/"},
		}
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
		require.Equal(t, map[string]int{"failed:gone": 1}, reasons(t, parts, fires))
		require.Equal(t, 1, r.calls["http://two/"])
	})
}

// hanging is a caller whose first endpoint hangs before it fails.
type hanging struct {
	mu    sync.Mutex
	calls map[string]int
}

func (h *hanging) Call(_ context.Context, r *callback.Request) callback.Result {
	h.mu.Lock()
	h.calls[r.Target.URL]++
	h.mu.Unlock()
	if r.Target.URL == "http://one/" {
		time.Sleep(5 * time.Second)
		return callback.Result{
			Class:   callback.Retry,
			Failure: timer.FailureTimeout,
			Error:   "no answer",
		}
	}
	return callback.Result{StatusCode: 200}
}

// TestP5HoldsForEachOfSeveralTargets checks that no further target is called if the timer is
// deactivated while the first one hangs.
func TestP5HoldsForEachOfSeveralTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status   timer.Status
		attempts int
		want     string
	}{
		{timer.StatusActive, timer.DefaultRetry().Attempts, "delivered"},
		{timer.StatusInactive, timer.DefaultRetry().Attempts, "open"},
		{timer.StatusInactive, 1, "open"},
	} {
		t.Run(fmt.Sprint(tt.status, tt.attempts), func(t *testing.T) {
			t.Parallel()
			status, want := tt.status, tt.want
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := &hanging{calls: make(map[string]int)}
				start(
					t,
					parts,
					"one",
					&receiver{},
					func(o *executor.Options) { o.Caller = callback.Callers{timer.KindHTTP: r} },
				)
				d := soon(1, time.Second)[0]
				d.Target = timer.Target{}
				d.Mode, d.Targets = timer.ModeAny, []timer.Target{
					{Kind: timer.KindHTTP, URL: "http://one/"},
					{Kind: timer.KindHTTP, URL: "http://two/"},
				}
				d.Retry = timer.DefaultRetry()
				d.Retry.Attempts = tt.attempts
				d.Retry.Timeout = timer.Duration(10 * time.Second)
				fires := parts.Create("a", d)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(3 * time.Second) // the first hangs
				_, err := parts.Store.SetStatus(
					t.Context(),
					[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: status}},
					parts.Plan,
				)
				require.NoError(t, err)
				publishDue(t, parts, fires, time.Minute)
				require.Equal(t, map[string]int{want: 1}, reasons(t, parts, fires))
				require.Equal(t, 1, r.calls["http://one/"])
				require.Equal(t, status == timer.StatusActive, r.calls["http://two/"] == 1)
				if status != timer.StatusActive {
					activate(t, parts, fires)
				}
				require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires))
				require.Equal(t, 1, r.calls["http://two/"])
				if tt.attempts == 1 {
					require.Equal(t, 1, r.calls["http://one/"], "its attempt was the last")
				}
			})
		})
	}
}

// TestTargetsAreEditedBetweenAttempts: of a one-shot that is retried by another version, each target
// that is the same there keeps its result.
func TestTargetsAreEditedBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &down{
			calls: make(map[string]int),
			until: map[string]time.Time{"http://two/": time.Now().Add(time.Hour)},
		}
		start(t, parts, "one", &receiver{}, func(o *executor.Options) {
			o.Caller = callback.Callers{timer.KindHTTP: r}
		})
		target := func(url string) timer.Target { return timer.Target{Kind: timer.KindHTTP, URL: url} }
		d := soon(1, time.Second)[0]
		d.Target = timer.Target{}
		d.Mode, d.Targets = timer.ModeAll, []timer.Target{
			target("http://one/"),
			target("http://two/"),
		}
		d.Retry = timer.DefaultRetry()
		d.Retry.Wait = timer.Duration(10 * time.Second)
		fires := parts.Create("a", d)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(3 * time.Second)
		set := func(to timer.Status) {
			_, err := parts.Store.SetStatus(
				t.Context(),
				[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: to}},
				parts.Plan,
			)
			require.NoError(t, err)
		}
		set(timer.StatusPaused)
		d.Targets = []timer.Target{target("http://three/"), target("http://one/")}
		out, err := parts.Store.Edit(
			t.Context(), []store.Edit{{App: "a", ID: fires[0].Timer, Definition: d}}, parts.Plan,
		)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		time.Sleep(time.Second)
		set(timer.StatusActive)
		publishDue(t, parts, fires, time.Minute)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires))
		require.Equal(
			t, map[string]int{"http://one/": 1, "http://two/": 1, "http://three/": 1}, r.calls,
		)
	})
}

// down is a caller whose endpoints are unreachable until a time.
type down struct {
	mu    sync.Mutex
	until map[string]time.Time
	calls map[string]int
	vain  int

	lastVain time.Time
	answers  map[string]callback.Result // of targets that are up; success by default
}

func (d *down) Call(_ context.Context, r *callback.Request) callback.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[r.Target.URL]++
	if time.Now().Before(d.until[r.Target.URL]) {
		d.vain++
		d.lastVain = time.Now()
		return callback.Result{
			Class:   callback.Retry,
			Failure: timer.FailureConnect,
			Error:   "refused",
		}
	}
	if answer, ok := d.answers[r.Target.URL]; ok && answer.Failure != timer.FailureNone {
		return answer
	}
	return callback.Result{StatusCode: 200}
}

// permits counts the permits of limits that were used.
type permits struct {
	limit.Admission

	used atomic.Int64
}

func (p *permits) Done(app string) {
	p.used.Add(1)
	p.Admission.Done(app)
}

// TestRefusedTargetsUseNoPermit checks that a fire whose endpoints all have open breakers uses nothing
// of its app's rate.
func TestRefusedTargetsUseNoPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		until := time.Now().Add(time.Hour)
		r := &down{
			until: map[string]time.Time{"http://one/": until, "http://two/": until},
			calls: make(map[string]int),
		}
		var p *permits
		start(t, parts, "one", &receiver{}, func(o *executor.Options) {
			o.Caller = callback.Callers{timer.KindHTTP: r}
			p = &permits{Admission: o.Limits}
			o.Limits = p
		})
		fires := everySecond(parts, 60, func(d *timer.Definition) {
			d.Target = timer.Target{}
			d.Mode, d.Targets = timer.ModeAll, []timer.Target{
				{Kind: timer.KindHTTP, URL: "http://one/"},
				{Kind: timer.KindHTTP, URL: "http://two/"},
			}
			d.Retry.Attempts = 3
		})
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		publishDue(t, parts, fires, 2*time.Minute)
		require.NotZero(t, r.calls["http://one/"])
		require.LessOrEqual(t, p.used.Load(), int64(r.calls["http://one/"]+r.calls["http://two/"]))
	})
}

// TestBreakersOfSeveralTargets checks that each of several endpoints has its own breaker. In mode
// any a fire does not wait for one that is down; in mode all it loses no attempts to it.
func TestBreakersOfSeveralTargets(t *testing.T) {
	t.Parallel()
	for _, mode := range []timer.Mode{timer.ModeAny, timer.ModeAll} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			r := &down{
				until: map[string]time.Time{"http://one/": time.Now().Add(20 * time.Second)},
				calls: make(map[string]int),
			}
			start(
				t,
				parts,
				"one",
				&receiver{},
				func(o *executor.Options) { o.Caller = callback.Callers{timer.KindHTTP: r} },
			)
			fires := everySecond(parts, 40, func(d *timer.Definition) {
				d.Target = timer.Target{}
				d.Mode, d.Targets = mode, []timer.Target{
					{Kind: timer.KindHTTP, URL: "http://one/"},
					{Kind: timer.KindHTTP, URL: "http://two/"},
				}
				d.Retry = timer.Retry{
					Attempts: 12,
					Wait:     timer.Duration(2 * time.Second),
					MaxWait:  timer.Duration(time.Minute),
					Factor:   1,
					Timeout:  timer.Duration(time.Second),
				}
			})
			require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
			publishDue(t, parts, fires, 3*time.Minute)
			require.Equal(t, map[string]int{"delivered": 40}, reasons(t, parts, fires), mode)
			require.Less(t, r.vain, 15, mode)
			if mode == timer.ModeAll {
				require.Equal(t, 40, r.calls["http://two/"])
			}
		})
	}
}

// TestSeveralDeadTargetsOfALimitedApp checks that fires end whose endpoints stay down, although each
// of them also waits for the limits of its app, which others use up.
func TestSeveralDeadTargetsOfALimitedApp(t *testing.T) {
	t.Parallel()
	for _, mode := range []timer.Mode{timer.ModeAny, timer.ModeAll} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			_, err := parts.Store.PutSettings(
				t.Context(), "a", store.AppSettings{Rate: 2, Burst: 1}, 0,
			)
			require.NoError(t, err)
			never := time.Now().Add(time.Hour)
			r := &down{
				until: map[string]time.Time{"http://one/": never, "http://two/": never},
				calls: make(map[string]int),
			}
			start(t, parts, "one", &receiver{}, func(o *executor.Options) {
				o.Caller = callback.Callers{timer.KindHTTP: r}
			})
			const up = "http://up/"
			for range 3 { // more than the rate
				everySecond(parts, 1, func(d *timer.Definition) { d.Target.URL = up })
			}
			time.Sleep(5 * time.Second)
			defs := soon(20, time.Second)
			for i := range defs {
				defs[i].Target = timer.Target{}
				defs[i].Mode, defs[i].Targets = mode, []timer.Target{
					{Kind: timer.KindHTTP, URL: "http://one/"},
					{Kind: timer.KindHTTP, URL: "http://two/"},
				}
				defs[i].Retry = timer.Retry{
					Attempts: 3,
					Wait:     timer.Duration(2 * time.Second),
					MaxWait:  timer.Duration(time.Minute),
					Factor:   1,
					Timeout:  timer.Duration(time.Second),
				}
			}
			fires := parts.Create("a", defs...)
			parts.Dispatch.Committed(t.Context(), fires)
			publishDue(t, parts, fires, 3*time.Minute)
			require.Equal(t, map[string]int{"failed:exhausted": 20}, reasons(t, parts, fires), mode)
			require.Greater(t, r.calls[up], 50, "they use the rate, too")
		})
	}
}

// TestRefusedTargetsAreCalledAfterTheLastAttempt checks that with mode all a fire does not end while a
// target waits for its breaker that was not called, whatever the other target answers, and that the
// other one is not called again.
func TestRefusedTargetsAreCalledAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other callback.Result
		want  string
	}{
		"the other takes it": {want: "delivered"},
		"the other fails": {
			callback.Result{Class: callback.Retry, Failure: timer.FailureStatus, StatusCode: 500},
			"failed:exhausted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := &down{
					until:   map[string]time.Time{"http://one/": time.Now().Add(20 * time.Second)},
					calls:   make(map[string]int),
					answers: map[string]callback.Result{"http://two/": c.other},
				}
				start(t, parts, "one", &receiver{}, func(o *executor.Options) {
					o.Caller = callback.Callers{timer.KindHTTP: r}
				})
				fires := everySecond(parts, 40, func(d *timer.Definition) {
					d.Target = timer.Target{}
					d.Mode, d.Targets = timer.ModeAll, []timer.Target{
						{Kind: timer.KindHTTP, URL: "http://one/"},
						{Kind: timer.KindHTTP, URL: "http://two/"},
					}
					d.Retry.Attempts = 1
				})
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				publishDue(t, parts, fires, 3*time.Minute)
				require.Equal(t, 40, r.calls["http://two/"])
				var later []timer.Fire // than the last failed probes
				for i := range fires {
					if fires[i].FireID.DueMS > r.lastVain.UnixMilli() {
						later = append(later, fires[i])
					}
				}
				require.GreaterOrEqual(t, len(later), 20)
				require.Equal(t, map[string]int{c.want: len(later)}, reasons(t, parts, later))
				require.GreaterOrEqual(t, r.calls["http://one/"]-r.vain, len(later))
			})
		})
	}
}

// TestOnlyTheTargetThatAcceptedCompletes has two targets that both have accepted an earlier attempt,
// and not completed it. In the third one the first does not answer in time, and the second accepts.
func TestOnlyTheTargetThatAcceptedCompletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		tokens, err := callback.NewCompletionTokens(make([]byte, 32))
		require.NoError(t, err)
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if q.Attempt == 3 && q.Target.URL == "http://one/" {
				return callback.Result{Class: callback.Retry, Failure: timer.FailureTimeout}
			}
			return callback.Result{
				Class: callback.Accepted, StatusCode: 202, CompleteWithin: 10 * time.Second,
			}
		}}
		start(t, parts, "one", r, func(o *executor.Options) {
			o.Caller, o.Tokens = callback.Callers{timer.KindHTTP: r}, tokens
		})
		d := soon(1, time.Second)[0]
		d.Target, d.Mode = timer.Target{}, timer.ModeAny
		for _, url := range []string{"http://one/", "http://two/"} {
			d.Targets = append(d.Targets, timer.Target{
				Kind: timer.KindHTTP, URL: url, Async: timer.Duration(time.Minute),
			})
		}
		d.Retry = timer.Retry{Attempts: 5, Timeout: timer.Duration(time.Second)}
		fires := parts.Create("a", d)
		parts.Dispatch.Committed(t.Context(), fires)
		calls, _ := r.seen()
		for ; len(calls) < 4; calls, _ = r.seen() {
			publishDue(t, parts, fires, time.Second)
		}
		complete := func(token string) store.CompletionState {
			target, ok := tokens.Verify(fires[0].FireID, 3, token)
			require.True(t, ok)
			got, err := parts.Store.Complete(t.Context(), "a", store.Completion{
				FireID: fires[0].FireID, Attempt: 3, Target: target,
			})
			require.NoError(t, err)
			return got.State
		}
		require.Equal(t, store.CompletionTooLate, complete(calls[2].Token))
		require.Equal(t, store.CompletionAccepted, complete(calls[3].Token))
	})
}
