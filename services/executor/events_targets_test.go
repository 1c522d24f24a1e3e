package executor_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestOutcomeEventsListEachTarget checks that the event of a fire for all targets has the result of
// each, also of earlier attempts, and that other events have none.
func TestOutcomeEventsListEachTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		var mu sync.Mutex
		told := make(map[timer.ID]*carillonv1.Outcome)
		c, err := parts.Bus("listener").
			Subscribe(t.Context(), bus.Subscription{Topic: bus.Outcomes, Name: "listener", Concurrency: 1, MaxBatch: 1, Prefetch: 1},
				func(_ context.Context, b []bus.Message) []error {
					o := new(carillonv1.Outcome)
					require.NoError(t, proto.Unmarshal(b[0].Payload, o))
					mu.Lock()
					defer mu.Unlock()
					told[timer.ID(o.GetTimerId())] = o
					return nil
				})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		r := &receiver{answer: func(q *callback.Request) callback.Result {
			if q.Target.Name == "down" || q.Target.Name == "busy" && q.Attempt == 1 {
				return callback.Result{
					Class:      callback.Retry,
					StatusCode: 503,
					Failure:    timer.FailureStatus,
					Error:      "busy",
				}
			}
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		start(
			t,
			parts,
			"one",
			r,
			func(o *executor.Options) { o.Caller = callback.Callers{timer.KindHTTP: r} },
		)
		defs := soon(3, time.Second)
		for i, second := range []string{"busy", "down"} {
			d := &defs[i]
			d.Retry = timer.Retry{
				Attempts: 2,
				Wait:     timer.Duration(time.Second),
				Factor:   1,
				Timeout:  timer.Duration(time.Second),
			}
			web, other := d.Target, d.Target
			web.Name, other.Name, d.Target = "web", second, timer.Target{}
			d.Fanout = timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{web, other}}
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		web := &carillonv1.TargetOutcome{Index: 0, Kind: "delivered", Attempts: 1, StatusCode: 200}
		for i, want := range []*carillonv1.Outcome{
			{Kind: "delivered", Targets: []*carillonv1.TargetOutcome{web, {Index: 1, Kind: "delivered", Attempts: 2, StatusCode: 200}}},
			{Kind: "failed", Targets: []*carillonv1.TargetOutcome{web, {Index: 1, Kind: "failed", Attempts: 2, StatusCode: 503, Failure: "status"}}},
			{Kind: "delivered"},
		} {
			o := told[fires[i].Timer]
			require.NotNil(t, o, i)
			require.True(
				t,
				proto.Equal(want, &carillonv1.Outcome{Kind: o.GetKind(), Targets: o.GetTargets()}),
				"%v",
				o,
			)
		}
	})
}

// notes is a store that counts acknowledgements of a session's position.
type notes struct {
	executor.Store
	mu   sync.Mutex
	at   []time.Time
	upTo int64 // the last acknowledged position
	away bool
}

func (n *notes) AckEvents(ctx context.Context, session timer.ID, p store.OutcomePosition) error {
	n.mu.Lock()
	n.at = append(n.at, time.Now())
	away := n.away
	if !away {
		n.upTo = p.FinishedMS
	}
	n.mu.Unlock()
	if away {
		return timer.Unavailable("noting", nil)
	}
	return n.Store.AckEvents(ctx, session, p) //nolint:wrapcheck // as the store does
}

func (n *notes) within(from, to time.Time) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range n.at {
		if at.After(from) && !at.After(to) {
			count++
		}
	}
	return count
}

func (n *notes) position() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.upTo
}

func (n *notes) lose(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = all
}

// TestAcksPauseWhileNothingIsPublished checks that the position is acknowledged within two seconds
// of an outcome, and rarely while there is none.
func TestAcksPauseWhileNothingIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		n := &notes{Store: parts.Store}
		start(t, parts, "one", new(receiver), func(o *executor.Options) { o.Store = n })
		began := time.Now()
		time.Sleep(30*time.Second + 10*time.Millisecond)
		idle := n.within(began, time.Now())
		require.GreaterOrEqual(t, idle, 5)
		require.LessOrEqual(t, idle, 8)
		for range 3 {
			parts.Dispatch.Committed(t.Context(), parts.Create("a", soon(1, time.Second)...))
			called := time.Now().Add(time.Second)
			time.Sleep(3*time.Second + 10*time.Millisecond)
			require.GreaterOrEqual(t, n.position(), called.UnixMilli())
			time.Sleep(300 * time.Millisecond) // shifts the next outcome relative to the ticks
		}

		parts.Dispatch.Committed(t.Context(), parts.Create("a", soon(1, time.Second)...))
		called := time.Now().Add(time.Second)
		n.lose(true)
		time.Sleep(3 * time.Second)
		n.lose(false)
		time.Sleep(time.Second + 10*time.Millisecond)
		require.GreaterOrEqual(
			t,
			n.position(),
			called.UnixMilli(),
			"a failed acknowledgement is repeated",
		)
	})
}
