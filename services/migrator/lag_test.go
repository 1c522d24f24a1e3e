package migrator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// unread is a store whose backlog cannot be read while away is set. Nothing waits in it otherwise.
type unread struct {
	migrator.Store

	away atomic.Bool
}

func (s *unread) ExpandBacklog(context.Context, int) (timers int, oldestMS int64, err error) {
	if s.away.Load() {
		return 0, 0, errors.New("no database")
	}
	return 0, 0, nil
}

// TestLagRisesWhileItIsUnknown checks that the lag is not shown before it is known, keeps its value
// through errors that pass soon, and rises when the backlog cannot be read.
func TestLagRisesWhileItIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		reg := prometheus.NewRegistry()
		st := &unread{Store: parts.Store}
		st.away.Store(true)
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Store, o.Registerer = st, reg
		})
		lags := func() (all []float64) {
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "carillon_migrator_lag_seconds" {
					all = append(all, f.GetMetric()[0].GetGauge().GetValue())
				}
			}
			return all
		}
		time.Sleep(time.Minute)
		require.Empty(t, lags(), "it was never read")
		st.away.Store(false)
		time.Sleep(6 * time.Second)
		require.Equal(t, []float64{0}, lags())

		st.away.Store(true)
		time.Sleep(9 * time.Second)
		require.Equal(t, []float64{0}, lags(), "for 9 s")
		time.Sleep(time.Minute)
		require.Len(t, lags(), 1)
		require.InDelta(t, 69, lags()[0], 10)
		st.away.Store(false)
		time.Sleep(6 * time.Second)
		require.Equal(t, []float64{0}, lags())
	})
}
