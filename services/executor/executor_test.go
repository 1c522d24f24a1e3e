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
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// receiver is a caller that stands in for HTTP endpoints.
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
	takes := r.takes
	r.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return callback.Result{Class: callback.Retry, Error: "connection lost"}
		}
	}
	if r.answer != nil {
		return r.answer(q)
	}
	return callback.Result{Class: callback.Success, StatusCode: 200}
}

// seen returns the calls so far, and when each started.
func (r *receiver) seen() (calls []callback.Request, at []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls), slices.Clone(r.at)
}

// total returns how many calls there were.
func (r *receiver) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
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

// frozen is a store by which a process can be frozen, as by SIGSTOP or a network partition.
type frozen struct {
	executor.Store
	stop atomic.Bool
}

var errCut = errors.New("connection lost")

func (f *frozen) RenewSession(ctx context.Context, id timer.ID, l store.Load) (bool, error) {
	if f.stop.Load() {
		return false, errCut
	}
	return f.Store.RenewSession(ctx, id, l)
}

func start(
	t *testing.T,
	parts *servicetest.Parts,
	name string,
	r *receiver,
	change func(*executor.Options),
) (stop func()) {
	t.Helper()
	opts := executor.Options{
		Store:      parts.Store,
		Bus:        parts.Bus(name),
		Dispatch:   parts.Dispatch,
		Planner:    parts.Planner,
		Clock:      parts.Clock,
		Counts:     parts.Counts,
		IDs:        parts.IDs,
		Caller:     r,
		Limits:     limits(t, name),
		Breakers:   breakers(t),
		Name:       name,
		MaxCalls:   32,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
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
	require.Eventually(
		t,
		func() bool { return svc.Ready() == nil },
		time.Minute,
		10*time.Millisecond,
	)
	return stop
}

// limits returns the limiter of a single executor.
func limits(t *testing.T, name string) *limit.Limiter {
	t.Helper()
	l, err := limit.New(limit.Options{SharedState: memstate.New(nil), Executor: name})
	require.NoError(t, err)
	return l
}

func breakers(t *testing.T) *limit.Breakers {
	t.Helper()
	b, err := limit.NewBreakers(limit.BreakerOptions{})
	require.NoError(t, err)
	return b
}

func soon(n int, after time.Duration) []timer.Definition {
	defs := make([]timer.Definition, n)
	for i := range defs {
		defs[i] = servicetest.Once(
			time.Now().Add(after+time.Duration(i)*time.Millisecond),
			"http://127.0.0.1/",
		)
	}
	return defs
}

func outcomes(
	t *testing.T,
	parts *servicetest.Parts,
	app string,
	fires []timer.Fire,
) map[timer.OutcomeKind]int {
	t.Helper()
	kinds := make(map[timer.OutcomeKind]int)
	among := make(map[timer.FireID]bool, len(fires))
	for batch := range slices.Chunk(fires, store.MaxBatch) {
		ids := make([]timer.FireID, len(batch))
		for i, f := range batch {
			ids[i] = f.FireID
			among[f.FireID] = true
		}
		open, err := parts.Store.OpenAmong(t.Context(), ids)
		require.NoError(t, err)
		if len(open) > 0 {
			kinds["open"] += len(open)
		}
	}
	q := store.OutcomeQuery{App: app, ScanLimit: 1000, Limit: 1000}
	for {
		page, err := parts.Store.Outcomes(t.Context(), q)
		require.NoError(t, err)
		for _, o := range page.Outcomes {
			if among[o.FireID] {
				kinds[o.Kind]++
			}
		}
		if q.After = page.Next; q.After == (store.OutcomePosition{}) {
			return kinds
		}
	}
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
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 200},
			outcomes(t, parts, "a", fires),
		)
	})
}

// TestP3OnceEachOnBadDays checks that each fire is called once and has one outcome, whatever the
// bus and the store do while no process dies.
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
				for range 3 { // a publisher may miss the confirmation
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
				return callback.Result{
					Class:      callback.Retry,
					StatusCode: 500,
					Error:      "500",
					Excerpt:    "no",
				}
			}
			return callback.Result{Class: callback.Success, StatusCode: 204}
		}}
		start(t, parts, "one", r, nil)
		short := servicetest.Once(time.Now().Add(time.Second), "http://127.0.0.1/")
		long := short
		long.Retry.Wait = timer.Duration(6 * time.Second) // 6 s, then 12 s: released
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
			require.Zero(t, got.Open.Owner, "released")
			require.Len(t, got.Attempts, int(n+1))
			page, err := parts.Window.Range(
				t.Context(),
				window.SliceOf(got.Open),
				0,
				timer.NeverMS,
				10,
			)
			require.NoError(t, err)
			require.Contains(t, page.Fires, *got.Open, "put into the window")
			// No trigger polls the window here, so publish the task.
			require.NoError(t, parts.Dispatch.Publish(t.Context(), page.Fires))
			time.Sleep(time.Until(time.UnixMilli(got.Open.RunAtMS)) + time.Second)
		}
		for _, f := range fires {
			got, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, got.Outcome)
			require.Equal(t, timer.Delivered, got.Outcome.Kind)
			require.EqualValues(t, 3, got.Outcome.Attempts)
			require.EqualValues(t, 204, got.Outcome.StatusCode)
			require.Len(t, got.Attempts, 3, "each attempt is recorded")
			require.Less(
				t,
				got.Outcome.LatenessMS,
				int64(100),
				"lateness is that of the first attempt",
			)
			require.Equal(t, 3, r.attempts()[f.FireID])
		}
		// A task of an earlier revision wins no claim.
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
		var deadLetters []*carillonv1.DeadTask
		c, err := parts.Bus("operator").Subscribe(t.Context(), bus.Subscription{
			Topic: bus.TasksDead, Name: "listeners", Concurrency: 1, MaxBatch: 1, Prefetch: 1,
		}, func(_ context.Context, b []bus.Message) []error {
			d := new(carillonv1.DeadTask)
			require.NoError(t, proto.Unmarshal(b[0].Payload, d))
			deadLetters = append(deadLetters, d)
			return nil
		})
		require.NoError(t, err)
		fires := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(20 * time.Second)
		require.NoError(t, c.Close())
		require.Equal(t, map[timer.OutcomeKind]int{timer.Failed: 1}, outcomes(t, parts, "a", fires))
		require.Len(t, deadLetters, 1)
		require.Equal(t, "exhausted", deadLetters[0].GetReason())
		require.EqualValues(t, 3, deadLetters[0].GetAttempts())
		require.EqualValues(t, 503, deadLetters[0].GetStatusCode())
		require.Equal(t, "a", deadLetters[0].GetApp())
		require.Equal(t, fires[0].DueMS, deadLetters[0].GetTask().GetDueMs())
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
		require.NoError(t, b.Setup(t.Context(), []bus.TopicSpec{
			{Topic: bus.TasksDead, Subscriptions: []string{"listeners"}},
		}))
		require.NoError(t, b.Publish(t.Context(), bus.TasksNormal,
			bus.Message{Payload: []byte("junk")}, bus.Message{Payload: taskwire.Encode(&fires[0])}))
		time.Sleep(5 * time.Second)
		n, err := b.Backlog(t.Context(), bus.TasksDead, "listeners")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Len(t, r.attempts(), 1, "other tasks of the batch are claimed")
	})
}

func TestInflightFiresAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := &receiver{takes: 100 * time.Millisecond}
		start(
			t,
			parts,
			"one",
			r,
			func(o *executor.Options) { o.MaxInflight, o.MaxCalls, o.Prefetch = 600, 50, 10 },
		)
		fires := parts.Create("a", soon(3000, time.Second)...)
		published := make(chan error, 1)
		go func() { published <- parts.Dispatch.Publish(t.Context(), fires) }()
		time.Sleep(900 * time.Millisecond)
		left, err := parts.Bus("someone").Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
		require.NoError(t, err)
		require.Greater(t, left, int64(900), "tasks that do not fit stay on the bus")
		require.NoError(t, <-published)
		time.Sleep(30 * time.Second)
		require.Len(t, r.attempts(), 3000)
	})
}
