package executor_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestRaisedLimitsReadmitRetries is TestRaisedLimitsReadmitDeferredFires for second attempts.
func TestRaisedLimitsReadmitRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		began := time.Now()
		r := &receiver{answer: func(*callback.Request) callback.Result {
			if time.Since(began) < 5*time.Second {
				return callback.Result{
					Class:      callback.Retry,
					StatusCode: http.StatusTeapot,
					Failure:    timer.FailureStatus,
				}
			}
			return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
		}}
		start(t, parts, "one", r, nil)
		defs := soon(20, time.Second)
		for i := range defs {
			defs[i].Retry.Wait = timer.Duration(10 * time.Second)
		}
		fires := parts.Create("a", defs...)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(4 * time.Second)
		require.Len(t, r.attempts(), 20, "each failed once")
		_, err := parts.Store.PutSettings(
			t.Context(),
			"a",
			store.AppSettings{Rate: 0.01, Burst: 1},
			0,
		)
		require.NoError(t, err)
		time.Sleep(26 * time.Second)
		before, _ := r.seen()
		require.Less(t, len(before), 25)
		_, err = parts.Store.PutSettings(t.Context(), "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		calls, _ := r.seen()
		require.Len(t, calls, 40)
	})
}
