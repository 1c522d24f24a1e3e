package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// slowRecords is a store that takes long for each fire, or forever. Fires not in records are not
// found.
type slowRecords struct {
	Store

	takes   time.Duration
	away    bool
	records map[timer.FireID]store.FireRecord
}

func (s *slowRecords) Fire(
	ctx context.Context,
	_ string,
	id timer.FireID,
) (store.FireRecord, error) {
	if s.away {
		return store.FireRecord{}, errors.New("unavailable")
	}
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return store.FireRecord{}, context.Cause(ctx)
	}
	rec, ok := s.records[id]
	if !ok {
		return rec, timer.NotFound("fire", id)
	}
	return rec, nil
}

// late returns fires whose first attempt failed, and whose give-up time has passed.
func late(t *testing.T, f *fixture, s *slowRecords, n int) (es []*inflight.Entry) {
	t.Helper()
	s.Store, s.records = f.opts.Store, make(map[timer.FireID]store.FireRecord)
	f.opts.Store = s
	def := oneShot()
	def.Retry.GiveUpAfter = timer.Duration(time.Minute)
	for range n {
		e := f.entry(t, def)
		e.Fire.Attempt, e.Fire.State = 1, timer.FireRetrying
		s.records[e.Fire.FireID] = store.FireRecord{Attempts: []timer.Attempt{{
			FireID: e.Fire.FireID, N: 1, Failure: timer.FailureStatus, StatusCode: 503,
		}}}
		es = append(es, e)
	}
	time.Sleep(2 * time.Minute)
	return es
}

// TestLastFailuresAreReadFromASlowStore gives up so many fires at once that the store does not tell
// in one round trip why their attempts failed. All outcomes say so, and only the fire without a
// record does not.
func TestLastFailuresAreReadFromASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s := setup(t), &slowRecords{takes: 200 * time.Millisecond}
		es := late(t, f, s, 51)
		delete(s.records, es[0].Fire.FireID)
		for _, e := range es {
			f.deliver(e)
		}
		time.Sleep(5 * time.Second)
		require.NotZero(t, f.Waiting(), "the drain waits for them")
		time.Sleep(time.Minute)
		require.Zero(t, f.Waiting())
		require.Zero(t, f.calls)
		require.Len(t, f.record.done, len(es))
		failures := make(map[timer.Failure]int)
		for _, d := range f.record.done {
			require.Equal(t, timer.ReasonGaveUp, d.reason)
			failures[d.failure]++
		}
		require.Equal(
			t, map[timer.Failure]int{timer.FailureNone: 1, timer.FailureStatus: 50}, failures,
		)
	})
}

// TestAnUnknownLastFailureIsLeftToTheNextOwner checks that an executor whose session expires before
// it has read the last attempt records nothing.
func TestAnUnknownLastFailureIsLeftToTheNextOwner(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fixture, e *inflight.Entry){
		"expired": func(_ *fixture, e *inflight.Entry) { e.Epoch.Fence() },
		"closed":  func(f *fixture, _ *inflight.Entry) { f.opts.Lookups.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, s := setup(t), new(slowRecords)
				e := late(t, f, s, 1)[0]
				s.away = true
				f.deliver(e)
				time.Sleep(time.Minute)
				require.Equal(t, 1, f.Waiting())
				end(f, e)
				time.Sleep(time.Minute)
				require.Zero(t, f.Waiting())
				require.Empty(t, f.record.done)
				require.Zero(t, f.opts.Inflight.Len())
			})
		})
	}
}
