package executor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestP3LostSessionCallsNothing checks that an executor cut off from the store starts no call from
// 2 s after its last renewal on, and that another calls its fires.
func TestP3LostSessionCallsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		cut, ok := new(receiver), new(receiver)
		f := &frozen{Store: parts.Store}
		stop := start(t, parts, "cut", cut, func(o *executor.Options) { o.Store = f })
		fires := parts.Create("a", soon(300, 3*time.Second)...) // over one second, starting in 3 s
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
		require.Len(
			t,
			ok.attempts(),
			300-len(cut.attempts()),
			"each fire is called by one of the two",
		)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 300},
			outcomes(t, parts, "a", fires),
		)
		f.stop.Store(false)
		time.Sleep(5 * time.Second)
		stop()
	})
}

// TestWaitOutlivesWhoWaited checks that the next owner of a fire waits for the retry as long as the
// previous one would have.
func TestWaitOutlivesWhoWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Longer than the recovery takes, and short enough to stay in flight.
		const wait = 4500 * time.Millisecond
		parts := servicetest.New(t, servicetest.Options{})
		cut := &receiver{answer: func(*callback.Request) callback.Result {
			return callback.Result{Class: callback.Retry, StatusCode: 503}
		}}
		ok := new(receiver)
		f := &frozen{Store: parts.Store}
		start(t, parts, "cut", cut, func(o *executor.Options) { o.Store = f })
		def := soon(1, 3*time.Second)
		def[0].Retry = timer.Retry{
			Attempts: 2,
			Wait:     timer.Duration(wait),
			Factor:   1,
			MaxWait:  timer.Duration(wait),
			Timeout:  timer.Duration(time.Second),
		}
		require.NoError(t, parts.Dispatch.Publish(t.Context(), parts.Create("a", def...)))
		time.Sleep(3200 * time.Millisecond)
		f.stop.Store(true)
		start(t, parts, "ok", ok, nil)
		time.Sleep(10 * time.Second)
		_, first := cut.seen()
		calls, second := ok.seen()
		require.Len(t, first, 1)
		require.Len(t, second, 1, "recovered")
		require.EqualValues(t, 2, calls[0].Attempt)
		require.GreaterOrEqual(t, second[0].Sub(first[0]), wait)
		require.Less(t, second[0].Sub(first[0]), wait+time.Second)
	})
}

func TestStopReleasesFiresNotStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		first, second := &receiver{takes: 2 * time.Second}, new(receiver)
		stop := start(t, parts, "first", first, nil)
		fires := parts.Create(
			"a",
			append(soon(10, time.Second), soon(50, 4500*time.Millisecond)...)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 10, first.running.Load())
		began := time.Now()
		stop()
		require.Less(t, time.Since(began), 3*time.Second, "only calls in flight finish")
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

// panicking is a store whose first claims panic: before and after the commit.
type panicking struct {
	executor.Store

	claims atomic.Int64
}

func (p *panicking) Claim(
	ctx context.Context,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	n := p.claims.Add(1)
	if n == 1 {
		panic("before the commit")
	}
	won, err := p.Store.Claim(ctx, id, fires)
	if n == 2 {
		panic("after the commit")
	}
	return won, err
}

// TestClaimThatPanics checks that fires of a panicking claim are called on redelivery, and delay no
// others.
func TestClaimThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r, p := new(receiver), &panicking{Store: parts.Store}
		stop := start(t, parts, "one", r, func(o *executor.Options) { o.Store = p })
		fires := parts.Create("a", soon(5, 2*time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(30 * time.Second)
		require.GreaterOrEqual(t, p.claims.Load(), int64(3))
		require.Len(t, r.attempts(), 5)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 5},
			outcomes(t, parts, "a", fires),
		)
		stop()
	})
}

// slow is a store whose claims are slow, and can commit without an answer.
type slow struct {
	executor.Store

	way   atomic.Int64 // ns until a claim arrives
	takes time.Duration
	lose  atomic.Int64 // number of answers to lose
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
		stop := start(
			t,
			parts,
			"first",
			first,
			func(o *executor.Options) { o.Store = &slow{Store: parts.Store, takes: time.Second} },
		)
		fires := parts.Create("a", soon(50, 3*time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(500 * time.Millisecond)
		stop() // during the claim
		start(t, parts, "second", second, nil)
		time.Sleep(5 * time.Second)
		require.Len(t, second.attempts(), 50)
		require.Empty(t, first.attempts())
	})
}

func TestUnansweredClaimIsConfirmedSoon(t *testing.T) {
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
		// It may receive the tasks, and finds them claimed by an alive session.
		start(t, parts, "two", other, nil)
		time.Sleep(5 * time.Second)
		require.Len(t, r.attempts(), 50)
		_, at := r.seen()
		for _, a := range at {
			require.Less(t, a.Sub(time.UnixMilli(fires[0].DueMS)), 3*time.Second)
		}
		require.Positive(t, paths(t, parts, fires)[timer.PathOwnClaim])
	})
}

// TestClaimOfExpiredSessionReturnsTasks checks that the tasks of a claim of an expired session are
// redelivered, and that the next session claims their fires at once.
func TestClaimOfExpiredSessionReturnsTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		cut, late := &frozen{Store: parts.Store}, new(slow)
		late.Store = cut
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = late })
		cut.stop.Store(true)
		late.way.Store(int64(3 * time.Second)) // the session expires before the claim arrives
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
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 3},
			outcomes(t, parts, "a", fires),
		)
	})
}
