package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestInconclusiveProbeAllowsTheNext checks that a probe that never reached the endpoint neither
// closes its breaker nor prolongs it: the next call is the probe.
func TestInconclusiveProbeAllowsTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		breakers, err := limit.NewBreakers(limit.BreakerOptions{Failures: 1, Probes: 1})
		require.NoError(t, err)
		deliverer := &Deliverer{opts: Options{Breakers: breakers}}
		call := func(f timer.Failure) (ok, probe bool) {
			d, mark := breakers.Allow("e")
			p := &Permit{d: deliverer, endpoint: "e", probe: mark}
			if d.OK {
				p.report(&callback.Result{Failure: f})
				p.done()
			}
			return d.OK, mark != 0
		}
		call(timer.FailureConnect)
		time.Sleep(6 * time.Second)
		for _, f := range []timer.Failure{
			timer.FailureCanceled, timer.FailureAuth, timer.FailureRefused,
			timer.FailureInvalid, timer.FailureConnect,
		} {
			ok, probe := call(f)
			require.True(t, ok, f)
			require.True(t, probe, f)
		}
		ok, _ := call(timer.FailureNone)
		require.False(t, ok, "the last probe failed")
		time.Sleep(11 * time.Second)
		call(timer.FailureNone)
		_, probe := call(timer.FailureNone)
		require.False(t, probe, "closed")
	})
}
