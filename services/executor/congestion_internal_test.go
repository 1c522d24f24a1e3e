package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestALimitedAppDoesNotSlowCatchingUp checks that fires late because of app limits do not count as
// congestion.
func TestALimitedAppDoesNotSlowCatchingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		s, err := New(Options{
			Store:      parts.Store,
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
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		fires := parts.Create(
			"a",
			servicetest.Every(time.Now().Add(2*time.Second), 0, 200, "http://127.0.0.1/")...)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 20, Burst: 1}, 0)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.NotZero(t, s.intake.LateRoom(), "catch-up does not yield")
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// deliveringCaller is a caller that delivers every fire.
type deliveringCaller struct{}

func (deliveringCaller) Call(context.Context, *callback.Request) callback.Result {
	return callback.Result{Class: callback.Success, StatusCode: 200}
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
