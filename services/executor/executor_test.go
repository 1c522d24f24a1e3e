package executor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// receiver is called in place of HTTP endpoints.
type receiver struct {
	mu      sync.Mutex
	calls   []callback.Request
	at      []time.Time
	answer  func(r *callback.Request) callback.Result
	takes   time.Duration
	running atomic.Int64
}

func (r *receiver) Call(ctx context.Context, q *callback.Request) callback.Result {
	r.running.Add(1)
	defer r.running.Add(-1)
	r.mu.Lock()
	r.calls, r.at = append(r.calls, *q), append(r.at, time.Now())
	r.mu.Unlock()
	if r.takes > 0 {
		select {
		case <-time.After(r.takes):
		case <-ctx.Done():
			return callback.Result{Class: callback.Retry, Error: "cut off"}
		}
	}
	if r.answer != nil {
		return r.answer(q)
	}
	return callback.Result{Class: callback.Success, StatusCode: 200}
}

// seen returns the calls so far, and when each began.
func (r *receiver) seen() (calls []callback.Request, at []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls), slices.Clone(r.at)
}

func (r *receiver) attempts() map[timer.FireID]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[timer.FireID]int)
	for _, c := range r.calls {
		out[c.Fire]++
	}
	return out
}

// frozen wraps a store so that a process can be stopped in its tracks, as by SIGSTOP or by the loss of its network.
type frozen struct {
	executor.Store
	stop atomic.Bool
}

var errCut = errors.New("cut off")

func (f *frozen) RenewSession(ctx context.Context, id timer.ID, l store.Load) (bool, error) {
	if f.stop.Load() {
		return false, errCut
	}
	return f.Store.RenewSession(ctx, id, l)
}

func start(t *testing.T, parts *servicetest.Parts, name string, r *receiver, change func(*executor.Options)) (stop func()) {
	t.Helper()
	opts := executor.Options{
		Store: parts.Store, Bus: parts.Bus(name), Dispatch: parts.Dispatch, Planner: parts.Planner, Clock: parts.Clock, Counts: parts.Counts, IDs: parts.IDs,
		Callers: map[timer.TargetKind]callback.Caller{timer.KindHTTP: r}, Name: name, MaxCalls: 32,
		Logger: parts.Log, Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&opts)
	}
	svc, err := executor.New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	require.Eventually(t, func() bool { return svc.Ready() == nil }, time.Minute, 10*time.Millisecond)
	return stop
}

func soon(n int, after time.Duration) []timer.Definition {
	defs := make([]timer.Definition, n)
	for i := range defs {
		defs[i] = servicetest.Once(time.Now().Add(after+time.Duration(i)*time.Millisecond), "http://127.0.0.1/")
	}
	return defs
}

func outcomes(t *testing.T, parts *servicetest.Parts, app string, fires []timer.Fire) map[timer.OutcomeKind]int {
	t.Helper()
	kinds := make(map[timer.OutcomeKind]int)
	for _, f := range fires {
		got, err := parts.Store.Fire(t.Context(), app, f.FireID)
		require.NoError(t, err)
		if got.Outcome != nil {
			kinds[got.Outcome.Kind]++
		}
		if got.Open != nil {
			kinds["open"]++
		}
	}
	return kinds
}

func TestFiresAreCalledOnTimeAndRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, nil)
		fires := parts.Create("a", soon(200, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(5 * time.Second)
		calls, at := r.seen()
		require.Len(t, calls, 200)
		for i, c := range calls {
			late := at[i].Sub(time.UnixMilli(c.PlannedMS))
			require.GreaterOrEqual(t, late, time.Duration(0), "P1")
			require.Less(t, late, 50*time.Millisecond)
			require.EqualValues(t, 1, c.Attempt)
			require.Equal(t, "a", c.App)
		}
		require.Equal(t, map[timer.OutcomeKind]int{timer.Delivered: 200}, outcomes(t, parts, "a", fires))
	})
}

// P3 where nothing dies: whatever the bus and the store do, each fire is called once and has one outcome.
func TestP3OnceEachOnBadDays(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]servicetest.Options{
		"bus":   {Bus: membus.Faults{Seed: 1, Duplicate: .3, Reorder: .3, Delay: .2, MaxDelay: 3 * time.Second, FailAfterPublish: .1}},
		"store": {Store: sqlstore.Faults{Seed: 2, FailRead: .05, FailBefore: .1, FailAfter: .1, Delay: 20 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				good := opts
				parts := servicetest.New(t, good)
				r := &receiver{takes: 3 * time.Millisecond}
				start(t, parts, "one", r, nil)
				start(t, parts, "two", r, nil)
				fires := parts.Create("a", soon(300, 2*time.Second)...)
				for range 3 { // whoever publishes is not always told that it was stored
					_ = parts.Dispatch.Publish(t.Context(), fires)
				}
				time.Sleep(3 * time.Minute)
				for id, n := range r.attempts() {
					require.Equal(t, 1, n, "fire %s", id)
				}
				require.Len(t, r.attempts(), 300)
			})
		})
	}
}

func TestRetriesAreHeldThenReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if q.Attempt < 3 {
				return callback.Result{Class: callback.Retry, StatusCode: 500, Error: "500", Excerpt: "no"}
			}
			return callback.Result{Class: callback.Success, StatusCode: 204}
		}}
		start(t, parts, "one", r, nil)
		short := servicetest.Once(time.Now().Add(time.Second), "http://127.0.0.1/")
		long := short
		long.Retry.Wait = timer.Duration(6 * time.Second) // 6 s, then 12 s: given back
		fires := parts.Create("a", short, long)
		parts.Dispatch.Committed(t.Context(), fires)
		marked := fires[1]
		time.Sleep(5 * time.Second)
		for n := range int32(2) {
			got, err := parts.Store.Fire(t.Context(), "a", marked.FireID)
			require.NoError(t, err)
			require.NotNil(t, got.Open)
			require.Equal(t, n+1, got.Open.Attempt)
			require.Equal(t, n+1, got.Open.Rev)
			require.Zero(t, got.Open.Owner, "given back")
			require.Len(t, got.Attempts, int(n+1))
			page, err := parts.Window.Range(t.Context(), window.SliceOf(got.Open), 0, timer.NeverMS, 10)
			require.NoError(t, err)
			require.Contains(t, page.Fires, *got.Open, "and marked")
			// No trigger polls the window here: publish its task as one would.
			require.NoError(t, parts.Dispatch.Publish(t.Context(), page.Fires))
			time.Sleep(time.Until(time.UnixMilli(got.Open.RunMS)) + time.Second)
		}
		for _, f := range fires {
			got, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, got.Outcome)
			require.Equal(t, timer.Delivered, got.Outcome.Kind)
			require.EqualValues(t, 3, got.Outcome.Attempts)
			require.EqualValues(t, 204, got.Outcome.StatusCode)
			require.Len(t, got.Attempts, 3, "each is recorded")
			require.Less(t, got.Outcome.LatenessMS, int64(100), "lateness is the first attempt's")
			require.Equal(t, 3, r.attempts()[f.FireID])
		}
		// A task of an earlier revision claims nothing.
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Minute)
		require.Equal(t, 3, r.attempts()[marked.FireID])
	})
}

func TestExhaustedFireFailsAndIsADeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{answer: func(*callback.Request) callback.Result {
			return callback.Result{Class: callback.Retry, StatusCode: 503, Error: "503"}
		}}
		start(t, parts, "one", r, nil)
		var letters []*carillonv1.DeadTask
		c, err := parts.Bus("operator").Subscribe(t.Context(), bus.Subscription{
			Topic: bus.TasksDead, Name: bus.SubOperators, Concurrency: 1, MaxBatch: 1, Prefetch: 1,
		}, func(_ context.Context, b []bus.Message) []error {
			d := new(carillonv1.DeadTask)
			require.NoError(t, proto.Unmarshal(b[0].Payload, d))
			letters = append(letters, d)
			return nil
		})
		require.NoError(t, err)
		fires := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(20 * time.Second)
		require.NoError(t, c.Close())
		require.Equal(t, map[timer.OutcomeKind]int{timer.Failed: 1}, outcomes(t, parts, "a", fires))
		require.Len(t, letters, 1)
		require.Equal(t, "exhausted", letters[0].GetReason())
		require.EqualValues(t, 3, letters[0].GetAttempts())
		require.EqualValues(t, 503, letters[0].GetStatusCode())
		require.Equal(t, "a", letters[0].GetApp())
		require.Equal(t, fires[0].DueMS, letters[0].GetTask().GetDueMs())
	})
}

func TestP5ChangeReachesExecutorsWithinASecond(t *testing.T) {
	t.Parallel()
	for name, status := range map[timer.Status]timer.OutcomeKind{timer.StatusInactive: timer.Skipped, timer.StatusDeleted: timer.Skipped} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := new(receiver)
				start(t, parts, "one", r, nil)
				fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:60]
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires)) // all are claimed and held at once
				time.Sleep(20*time.Second + 500*time.Millisecond)
				changed, err := parts.Store.SetStatus(t.Context(),
					[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: name}}, parts.Plan)
				require.NoError(t, err)
				require.NoError(t, changed[0].Err)
				off := time.Now() // and no message tells of it
				time.Sleep(time.Minute)
				_, begun := r.seen()
				for _, at := range begun {
					require.Less(t, at.Sub(off), time.Second)
				}
				if name == timer.StatusInactive {
					kinds := outcomes(t, parts, "a", fires)
					require.Equal(t, 60, kinds[timer.Delivered]+kinds[status])
					require.GreaterOrEqual(t, kinds[status], 38)
				}
			})
		})
	}
}

// lateDefinitions fails to read definitions at first, and then takes its time.
type lateDefinitions struct {
	executor.Store
	asked atomic.Int64
	takes time.Duration
}

func (s *lateDefinitions) Definitions(ctx context.Context, keys []store.VersionKey) (map[store.VersionKey]timer.Definition, error) {
	if s.asked.Add(1) == 1 {
		return nil, errCut
	}
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Definitions(ctx, keys)
}

// A definition that takes long to be read does not make the timer's state any older.
func TestP5HoldsWhileADefinitionIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = &lateDefinitions{Store: parts.Store, takes: 3 * time.Second} })
		fires := parts.Create("a", soon(1, time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(1500 * time.Millisecond)
		_, err := parts.Store.SetStatus(t.Context(),
			[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: timer.StatusInactive}}, parts.Plan)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Empty(t, r.attempts())
		require.Equal(t, map[timer.OutcomeKind]int{timer.Skipped: 1}, outcomes(t, parts, "a", fires))
	})
}

func TestFireOfAnEarlierActivationIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:10]
		set := func(s timer.Status) {
			_, err := parts.Store.SetStatus(t.Context(), []store.StatusChange{{App: "a", ID: fires[0].Timer, Status: s}}, parts.Plan)
			require.NoError(t, err)
		}
		set(timer.StatusInactive)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		set(timer.StatusActive)
		start(t, parts, "one", r, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(20 * time.Second)
		require.Equal(t, map[timer.OutcomeKind]int{timer.Skipped: 6, timer.Delivered: 4}, outcomes(t, parts, "a", fires))
	})
}

// What an executor knows of a timer may be a second old: a fire that is due just after an activation is called, whether the executor has heard
// of that or not.
func TestP2FireJustAfterAnActivationIsCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, nil)
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:60]
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		set := func(s timer.Status) {
			_, err := parts.Store.SetStatus(t.Context(), []store.StatusChange{{App: "a", ID: fires[0].Timer, Status: s}}, parts.Plan)
			require.NoError(t, err)
		}
		var owed []timer.Fire
		for i := 5; i < 55; i += 5 {
			f := fires[i]
			time.Sleep(time.Until(time.UnixMilli(f.DueMS - 2500)))
			set(timer.StatusInactive)
			time.Sleep(time.Until(time.UnixMilli(f.DueMS - int64(i))))
			set(timer.StatusActive) // and no message tells of it
			owed = append(owed, f)
		}
		time.Sleep(time.Minute)
		require.Equal(t, map[timer.OutcomeKind]int{timer.Delivered: len(owed)}, outcomes(t, parts, "a", owed))
	})
}

// An executor that is cut off from the store starts no call from 2 s after its last renewal on, and others call what it held.
func TestP3LostSessionCallsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		cut, ok := new(receiver), new(receiver)
		f := &frozen{Store: parts.Store}
		stop := start(t, parts, "cut", cut, func(o *executor.Options) { o.Store = f })
		fires := parts.Create("a", soon(1000, 3*time.Second)...) // over a second, from 3 s on
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Second)
		start(t, parts, "ok", ok, nil)
		f.stop.Store(true)
		off := time.Now()
		time.Sleep(20 * time.Second)
		_, begun := cut.seen()
		for _, at := range begun {
			require.Less(t, at.Sub(off), 2100*time.Millisecond)
		}
		require.Len(t, ok.attempts(), 1000-len(cut.attempts()), "each fire is called by one of the two")
		require.Equal(t, map[timer.OutcomeKind]int{timer.Delivered: 1000}, outcomes(t, parts, "a", fires))
		f.stop.Store(false)
		time.Sleep(5 * time.Second)
		stop()
	})
}

func TestStopGivesBackWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		first, second := &receiver{takes: 2 * time.Second}, new(receiver)
		stop := start(t, parts, "first", first, nil)
		fires := parts.Create("a", append(soon(10, time.Second), soon(50, 4500*time.Millisecond)...)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 10, first.running.Load())
		began := time.Now()
		stop()
		require.Less(t, time.Since(began), 3*time.Second, "calls in flight are finished, no more")
		require.Equal(t, 10, outcomes(t, parts, "a", fires)[timer.Delivered])
		live, err := parts.Store.LiveSessions(t.Context())
		require.NoError(t, err)
		require.Empty(t, live)
		open, err := parts.Store.Fire(t.Context(), "a", fires[20].FireID)
		require.NoError(t, err)
		require.EqualValues(t, 1, open.Open.Rev)
		require.Zero(t, open.Open.Owner)
		start(t, parts, "second", second, nil)
		time.Sleep(10 * time.Second)
		require.Len(t, first.attempts(), 10)
		require.Len(t, second.attempts(), 50, "published again at the stop")
	})
}

// slow wraps a store whose claims take their time, and can be committed without an answer.
type slow struct {
	executor.Store

	way   atomic.Int64 // ns until they arrive
	takes time.Duration
	lose  atomic.Int64 // so many answers
}

func (s *slow) Claim(ctx context.Context, id timer.ID, fires []timer.Fire) ([]timer.Fire, error) {
	if way := time.Duration(s.way.Load()); way > 0 {
		<-time.After(way)
	}
	won, err := s.Store.Claim(ctx, id, fires)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.lose.Add(-1) >= 0 {
		return nil, errCut
	}
	return won, err
}

func TestStopWhileClaimingLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		first, second := new(receiver), new(receiver)
		stop := start(t, parts, "first", first, func(o *executor.Options) { o.Store = &slow{Store: parts.Store, takes: time.Second} })
		fires := parts.Create("a", soon(50, 3*time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(500 * time.Millisecond)
		stop() // in the middle of the claim
		start(t, parts, "second", second, nil)
		time.Sleep(5 * time.Second)
		require.Len(t, second.attempts(), 50)
		require.Empty(t, first.attempts())
	})
}

func TestClaimWithoutAnswerIsTakenUpSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		lossy := &slow{Store: parts.Store}
		lossy.lose.Store(1)
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = lossy })
		fires := parts.Create("a", soon(50, time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Millisecond)
		other := new(receiver)
		start(t, parts, "two", other, nil) // may be given the tasks, and finds them claimed by one that lives
		time.Sleep(5 * time.Second)
		require.Len(t, r.attempts(), 50)
		_, at := r.seen()
		for _, a := range at {
			require.Less(t, a.Sub(time.UnixMilli(fires[0].DueMS)), 3*time.Second)
		}
	})
}

// A claim that arrives when its session has been ended wins nothing. Its tasks are not acknowledged: they come again, and the next session
// claims the fires at once.
func TestClaimOfAnEndedSessionGivesTheTasksBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		cut, late := &frozen{Store: parts.Store}, new(slow)
		late.Store = cut
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = late })
		cut.stop.Store(true)
		late.way.Store(int64(3 * time.Second)) // on its way the session is ended
		fires := parts.Create("a", soon(3, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(2 * time.Second)
		sessions, err := parts.Store.LiveSessions(t.Context())
		require.NoError(t, err)
		for _, s := range sessions {
			require.NoError(t, parts.Store.CloseSession(t.Context(), s.ID))
		}
		cut.stop.Store(false)
		late.way.Store(0)
		time.Sleep(3 * time.Second)
		require.Len(t, r.attempts(), 3)
		require.Equal(t, map[timer.OutcomeKind]int{timer.Delivered: 3}, outcomes(t, parts, "a", fires))
	})
}

func TestUnreadableTaskIsADeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, nil)
		fires := parts.Create("a", soon(1, time.Second)...)
		b := parts.Bus("someone")
		require.NoError(t, b.Publish(t.Context(), bus.TasksNormal,
			bus.Message{Payload: []byte("junk")}, bus.Message{Payload: taskwire.Encode(&fires[0])}))
		time.Sleep(5 * time.Second)
		n, err := b.Backlog(t.Context(), bus.TasksDead, bus.SubOperators)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Len(t, r.attempts(), 1, "its neighbours are not harmed")
	})
}

func TestHandsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{takes: 100 * time.Millisecond}
		start(t, parts, "one", r, func(o *executor.Options) { o.MaxHands, o.MaxCalls, o.Prefetch = 600, 50, 10 })
		fires := parts.Create("a", soon(3000, time.Second)...)
		published := make(chan error, 1)
		go func() { published <- parts.Dispatch.Publish(t.Context(), fires) }()
		time.Sleep(900 * time.Millisecond)
		left, err := parts.Bus("someone").Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
		require.NoError(t, err)
		require.Greater(t, left, int64(900), "what does not fit the hands stays on the bus")
		require.NoError(t, <-published)
		time.Sleep(30 * time.Second)
		require.Len(t, r.attempts(), 3000)
	})
}
