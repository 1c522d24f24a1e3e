package fires_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2RequestsThatAFreezeRefuses checks that a request which a freeze refuses leaves nothing under
// its key. Repeated after the freeze, it counts from then, and a repetition of one that was made
// before the freeze is answered all the same.
func TestV2RequestsThatAFreezeRefuses(t *testing.T) {
	t.Parallel()
	// Each reading of the API's clock is a later millisecond.
	began, readings := time.Now().Add(-time.Minute), atomic.Int64{}
	e := apitest.NewExecutor(t, func(o *api.Options) {
		o.Now = func() time.Time {
			return began.Add(time.Duration(readings.Add(1)) * time.Millisecond)
		}
	})
	fires := e.Held(t, "shop", "a", 2)
	run := apitest.TimerPath(fires[0].Timer.String(), "/run")
	call := func(path, key string) apitest.Answer {
		var header map[string]string
		if key != "" {
			header = map[string]string{"Idempotency-Key": key}
		}
		return e.Call(t, http.MethodPost, path, `{}`, header)
	}
	type fire struct{ ID, Due string }
	made := func(key string) (f fire) {
		call(run, key).Into(t, 202, &f)
		return f
	}
	first := made("first")
	e.Fail(t, fires[:1], timer.FailureTimeout)

	e.Call(t, http.MethodPost, "/api/v2/apps/shop/freeze", "", nil).Into(t, 200, &struct{}{})
	const redrives = "/api/v2/apps/shop/redrives"
	for range 2 {
		for _, path := range []string{run, run + "&dry_run=true", redrives} {
			a := call(path, "second")
			require.Equal(t, 409, a.Status, a.Body)
			require.Contains(t, a.Body, "the app shop is frozen")
		}
	}
	require.Equal(t, first, made("first"))
	e.Fail(t, fires[1:], timer.FailureTimeout)

	e.Call(t, http.MethodPost, "/api/v2/apps/shop/unfreeze", "", nil).Into(t, 200, &struct{}{})
	without, second := made(""), made("second")
	require.Greater(t, second.Due, without.Due)
	require.Equal(t, second, made("second"))
	var redriven apitest.Redriven
	call(redrives, "second").Into(t, 200, &redriven)
	require.Equal(t, 2, redriven.Count)
}
