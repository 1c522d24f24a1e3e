package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

func TestAppSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := newAppMetrics(prometheus.NewRegistry())
	for i := range maxApps + 50 {
		m.recorded(fmt.Sprint("app-", i), &timer.Outcome{Kind: timer.Delivered, LatenessMS: 5})
	}
	m.recorded("app-0", &timer.Outcome{Kind: timer.Skipped, Reason: timer.ReasonMisfired})
	m.recorded("", &timer.Outcome{Kind: timer.Delivered})
	require.Equal(t, maxApps+2, testutil.CollectAndCount(m.fires))
	require.InDelta(
		t,
		51,
		testutil.ToFloat64(m.fires.WithLabelValues(otherApps, "delivered", "")),
		0,
	)
	require.InDelta(
		t,
		1,
		testutil.ToFloat64(m.fires.WithLabelValues("app-0", "skipped", "misfired")),
		0,
	)
}

// TestLatenessOfCancelled checks that a fire that was called and then skipped has a lateness in the
// metrics of its app, as in those of its timer, and that one that was not called has none.
func TestLatenessOfCancelled(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newAppMetrics(reg)
	cancelled := timer.Outcome{
		Kind: timer.Skipped, Reason: timer.ReasonCancelled, Attempts: 1, LatenessMS: 1500,
	}
	m.recorded("shop", &cancelled)
	m.recorded("shop", &timer.Outcome{Kind: timer.Skipped, Reason: timer.ReasonMisfired})
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_app_lateness_seconds Sum and number of the lateness of called fires, by app. Beyond 200 apps the app is (others).
# TYPE carillon_app_lateness_seconds summary
carillon_app_lateness_seconds_sum{app="shop"} 1.5
carillon_app_lateness_seconds_count{app="shop"} 1
`), "carillon_app_lateness_seconds"))
}
