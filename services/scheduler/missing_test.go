package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestMissingFiresAreFound runs two schedulers beside a timer whose expansions lose fires, and
// beside one whose expansions do not.
func TestMissingFiresAreFound(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"lost": true, "kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				d := timer.Definition{Schedule: timer.Schedule{
					Kind: timer.KindCron, Specs: []string{"* * * * *"},
				}}
				out, err := parts.Store.Create(t.Context(), []store.NewTimer{
					{App: "shop", Name: "bill", Definition: d, Activate: true},
				}, func(tm *timer.Timer, nowMS int64) store.Plan {
					p := parts.Plan(tm, nowMS)
					if lose {
						p.Fires = nil
					}
					return p
				})
				require.NoError(t, err)
				require.NoError(t, out[0].Err)
				reg := prometheus.NewRegistry()
				slow := func(o *scheduler.Options) { o.Tick = 10 * time.Second }
				startWith(t, parts, "other", slow)
				startWith(t, parts, "one", func(o *scheduler.Options) {
					slow(o)
					o.Registerer = reg
				})
				time.Sleep(10 * time.Minute)
				require.Positive(t, counter(t, reg, "carillon_scheduler_searched_instants_total"))
				require.Equal(
					t, lose, counter(t, reg, "carillon_scheduler_missing_fires_total") > 0)
				require.Zero(t, counter(t, reg, "carillon_scheduler_errors_total"))
			})
		})
	}
}

// TestRaisedMaxFiresAreNotMissing checks that instants after the last fire are not counted once more
// fires are allowed.
func TestRaisedMaxFiresAreNotMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		d := timer.Definition{Schedule: timer.Schedule{
			Kind: timer.KindCron, Specs: []string{"* * * * *"}, MaxFires: 2,
		}}
		out, err := parts.Store.Create(t.Context(), []store.NewTimer{
			{App: "shop", Name: "bill", Definition: d, Activate: true},
		}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		time.Sleep(30 * time.Minute)
		d.Schedule.MaxFires = 100
		edited, err := parts.Store.Edit(t.Context(), []store.Edit{
			{App: "shop", ID: out[0].Timer.ID, Definition: d},
		}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, edited[0].Err)
		reg := prometheus.NewRegistry()
		startWith(t, parts, "one", func(o *scheduler.Options) {
			o.Tick, o.Registerer = 10*time.Second, reg
		})
		time.Sleep(3 * time.Minute)
		require.Positive(t, counter(t, reg, "carillon_scheduler_searched_instants_total"))
		require.Zero(t, counter(t, reg, "carillon_scheduler_missing_fires_total"))
	})
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}
