package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// slowStates is a store that tells states of timers late for a while: each question takes a time, or
// waits until the end of that while. Its change log tells nothing meanwhile, so each fire asks.
type slowStates struct {
	executor.Store

	from, to time.Time
	takes    time.Duration
}

func (s *slowStates) during() bool {
	now := time.Now()
	return !now.Before(s.from) && now.Before(s.to)
}

func (s *slowStates) Changes(
	ctx context.Context, after int64, limit int,
) ([]store.Change, error) {
	if s.during() {
		return nil, errCut
	}
	return s.Store.Changes(ctx, after, limit)
}

func (s *slowStates) States(
	ctx context.Context, ids []timer.ID,
) ([]timer.State, error) {
	if s.during() {
		wait := s.takes
		if wait == 0 {
			wait = time.Until(s.to)
		}
		clock.Pause(ctx, wait)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Store.States(ctx, ids)
}

// TestAStallMakesNoBurst checks that fires which waited with their permits while the store did not
// answer do not all start at one moment.
func TestAStallMakesNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, n = 100, 1, 300
		parts := servicetest.New(t, servicetest.Options{})
		_, err := parts.Store.PutSettings(
			t.Context(), "a", store.AppSettings{Rate: rate, Burst: burst}, 0,
		)
		require.NoError(t, err)
		due := time.Now().Add(time.Second)
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) {
			o.Store = &slowStates{Store: o.Store, from: due, to: due.Add(2 * time.Second)}
		})
		fires := parts.Create("a", soon(n, time.Until(due))...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(time.Until(due.Add(8 * time.Second)))
		require.Len(t, r.attempts(), n)
		_, at := r.seen()
		require.Len(t, at, n)
		most := 0
		for i := range at {
			together := 0
			for _, other := range at {
				if d := other.Sub(at[i]); d >= 0 && d < 10*time.Millisecond {
					together++
				}
			}
			most = max(most, together)
		}
		t.Log("at most", most, "calls within 10 ms")
		require.LessOrEqual(t, float64(most), rate*0.21+burst)
	})
}

// TestCallsGoOnWithOldPermits checks that calls go on if each permit is too old for its call, because
// the store always answers late, and that at least half of the rate is used.
func TestCallsGoOnWithOldPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, n = 20, 100
		parts := servicetest.New(t, servicetest.Options{})
		_, err := parts.Store.PutSettings(
			t.Context(), "a", store.AppSettings{Rate: rate, Burst: 1}, 0,
		)
		require.NoError(t, err)
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) {
			now := time.Now()
			o.Store = &slowStates{
				Store: o.Store, from: now, to: now.Add(time.Hour), takes: 500 * time.Millisecond,
			}
		})
		fires := parts.Create("a", soon(n, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(time.Second + 2*n/rate*time.Second + 2*time.Second)
		require.Len(t, r.attempts(), n)
	})
}
