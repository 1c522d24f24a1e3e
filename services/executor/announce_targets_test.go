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
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// The event of a fire that all targets shall take tells what became of each, also in attempts before the last; that of another has none.
func TestOutcomesTellOfEachTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		var mu sync.Mutex
		told := make(map[timer.ID]*carillonv1.Outcome)
		c, err := parts.Bus("listener").Subscribe(t.Context(), bus.Subscription{Topic: bus.Outcomes, Name: "listener", Concurrency: 1, MaxBatch: 1, Prefetch: 1},
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
				return callback.Result{Class: callback.Retry, StatusCode: 503, Failure: timer.FailureStatus, Error: "busy"}
			}
			return callback.Result{Class: callback.Success, StatusCode: 200}
		}}
		start(t, parts, "one", r, func(o *executor.Options) { o.Caller = callback.Callers{timer.KindHTTP: r} })
		defs := soon(3, time.Second)
		for i, second := range []string{"busy", "down"} {
			d := &defs[i]
			d.Retry = timer.Retry{Attempts: 2, Wait: timer.Duration(time.Second), Factor: 1, Timeout: timer.Duration(time.Second)}
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
			require.True(t, proto.Equal(want, &carillonv1.Outcome{Kind: o.GetKind(), Targets: o.GetTargets()}), "%v", o)
		}
	})
}
