package clock_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
)

func TestReadingAndMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h clock.Host
		c := clock.New(
			h.Now,
			func(context.Context) (time.Time, error) { return time.Now().Add(-1500 * time.Millisecond), nil },
		)
		reg := prometheus.NewRegistry()
		c.Register(reg)
		requireMetrics := func(offset, measuredAt, steady float64) {
			t.Helper()
			families, err := reg.Gather()
			require.NoError(t, err)
			got := map[string]float64{}
			for _, f := range families {
				got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
			require.Equal(t, map[string]float64{
				"carillon_clock_offset_seconds":       offset,
				"carillon_clock_measured_age_seconds": measuredAt,
				"carillon_clock_steady":               steady,
			}, got)
		}
		time.Sleep(3 * time.Second)
		require.Equal(t, clock.Reading{AgeMS: 3000}, c.Reading())
		requireMetrics(0, 3, 0)
		text, err := json.Marshal(c.Reading())
		require.NoError(t, err)
		require.JSONEq(t, `{"offset_ms":0,"age_ms":3000,"steady":false}`, string(text))

		require.NoError(t, c.Measure(t.Context()))
		at := time.Now().UTC()
		time.Sleep(2 * time.Second)
		require.Equal(
			t,
			clock.Reading{OffsetMS: -1500, MeasuredAt: at.Round(0), AgeMS: 2000, Steady: true},
			c.Reading(),
		)
		requireMetrics(-1.5, 2, 1)
		h.Set(time.Minute)
		requireMetrics(-1.5, 2, 0)
	})
}
