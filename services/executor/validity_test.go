package executor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// unrenewed is a store in which no session can be renewed.
type unrenewed struct{ Store }

func (unrenewed) RenewSession(context.Context, timer.ID, store.Load) (bool, error) {
	return false, errors.New("connection lost")
}

// TestWaitForValidEpochEndsWithItsConsumer checks that a wait for a valid session ends when the
// consumer closes and ends the context of its handlers. It must not retry without pause.
func TestWaitForValidEpochEndsWithItsConsumer(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	s, err := New(Options{
		Store: unrenewed{
			parts.Store,
		},
		Bus:        parts.Bus("one"),
		Dispatch:   parts.Dispatch,
		Planner:    parts.Planner,
		Clock:      parts.Clock,
		Counts:     parts.Counts,
		IDs:        parts.IDs,
		Caller:     callback.Callers{},
		Limits:     newLimiter(t),
		Breakers:   newBreakers(t),
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var keep sync.WaitGroup
	keep.Go(func() { _ = s.heartbeater.Run(ctx) })
	defer keep.Wait()
	defer cancel()
	_, err = s.heartbeater.Wait(ctx)
	require.NoError(t, err)
	// In real time, because a loop without pause would stop the clock of a bubble.
	require.Eventually(
		t,
		func() bool { return !s.heartbeater.Epoch().Valid() },
		5*session.LeaseValidity,
		10*time.Millisecond,
	)
	closed, stop := context.WithCancel(t.Context())
	stop()
	answer := make(chan error, 1)
	go func() {
		_, err := s.validEpoch(closed)
		answer <- err
	}()
	select {
	case err := <-answer:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(2 * time.Second):
		require.FailNow(t, "still waiting for a valid session")
	}
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
