package record

import (
	"fmt"
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
