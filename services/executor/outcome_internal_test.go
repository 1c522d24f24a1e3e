package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// withoutCalendars is a store that reads no calendar.
type withoutCalendars struct{ Store }

func (withoutCalendars) Calendar(context.Context, string, string) (store.CalendarVersion, error) {
	return store.CalendarVersion{}, errors.New("unavailable")
}

// TestAnOutcomeWithoutItsSuccessorIsNotRecorded checks that an executor whose session expires
// before it could read the calendars of a successor leaves the fire to the next owner. An outcome
// without its successor would end the fixed delay.
func TestAnOutcomeWithoutItsSuccessorIsNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		s, err := New(Options{
			Store:      withoutCalendars{parts.Store},
			Bus:        parts.Bus("one"),
			Dispatch:   parts.Dispatch,
			Planner:    parts.Planner,
			Clock:      parts.Clock,
			Counts:     parts.Counts,
			IDs:        parts.IDs,
			Caller:     deliveringCaller{},
			Limits:     newLimiter(t),
			Breakers:   newBreakers(t),
			Logger:     parts.Log,
			Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		defer s.lookups.close()
		epoch := inflighttest.Epoch(t)
		es, _, err := s.inflight.Reserve(t.Context(), epoch, []inflight.Arrival{{
			Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 1}},
		}}, inflight.FromTask, 0)
		require.NoError(t, err)
		e := es[0]
		e.Def = &timer.Definition{Schedule: timer.Schedule{
			Kind: timer.KindFixedDelay, Calendars: []string{"holidays"},
		}}
		s.end(e, s.outcome(e, timer.Delivered, timer.ReasonNone))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, s.ending.Load(), "it retries, and the drain waits for it")
		require.Zero(t, s.recorder.Waiting())
		epoch.Fence()
		time.Sleep(time.Minute)
		require.Zero(t, s.ending.Load())
		require.Zero(t, s.recorder.Waiting())
		require.Zero(t, s.inflight.Len())
	})
}

// newLimiter returns the limiter of a single executor.
func newLimiter(t *testing.T) *limit.Limiter {
	t.Helper()
	l, err := limit.New(limit.Options{SharedState: memstate.New(nil), Executor: "one"})
	require.NoError(t, err)
	return l
}

func newBreakers(t *testing.T) *limit.Breakers {
	t.Helper()
	b, err := limit.NewBreakers(limit.BreakerOptions{})
	require.NoError(t, err)
	return b
}
