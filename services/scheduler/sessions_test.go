package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// blindStore fails to read the sessions while blind is set.
type blindStore struct {
	scheduler.Store
	blind atomic.Bool
}

func (b *blindStore) LiveSessions(ctx context.Context) ([]store.Session, error) {
	if b.blind.Load() {
		return nil, errors.New("no database")
	}
	return b.Store.LiveSessions(ctx) //nolint:wrapcheck // as the store does
}

// TestSessionsAreNotShownThroughAnOutage checks that the count of sessions ends in an outage of the
// database, not by errors that pass soon, and is back after it.
func TestSessionsAreNotShownThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		reg := prometheus.NewRegistry()
		st := &blindStore{Store: parts.Store}
		startWith(t, parts, "one", func(o *scheduler.Options) { o.Store, o.Registerer = st, reg })
		time.Sleep(5 * time.Second)
		require.Equal(t, map[string]float64{"scheduler": 1}, sessionsShown(t, reg))

		st.blind.Store(true)
		time.Sleep(9 * time.Second)
		require.Equal(t, map[string]float64{"scheduler": 1}, sessionsShown(t, reg), "for 9 s")
		st.blind.Store(false)
		time.Sleep(2 * time.Second)
		st.blind.Store(true)
		time.Sleep(9 * time.Second)
		require.Equal(t, map[string]float64{"scheduler": 1}, sessionsShown(t, reg), "read between")
		time.Sleep(2 * time.Second)
		require.Empty(t, sessionsShown(t, reg), "for 11 s")

		st.blind.Store(false)
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]float64{"scheduler": 1}, sessionsShown(t, reg), "afterwards")
	})
}

// sessionsShown returns the values of carillon_sessions by kind.
func sessionsShown(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	shown := make(map[string]float64)
	for _, f := range families {
		if f.GetName() == "carillon_sessions" {
			for _, m := range f.GetMetric() {
				shown[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return shown
}
