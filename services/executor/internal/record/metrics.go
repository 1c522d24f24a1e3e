package record

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon-timer/carillon/libs/timer"
)

type metrics struct {
	outcomes *prometheus.CounterVec
	fenced   prometheus.Counter
	errors   prometheus.Counter
	batch    prometheus.Histogram
	apps     *appMetrics
}

func newMetrics(reg prometheus.Registerer, waiting func() int) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_executor_unrecorded",
		Help: "Results that are not recorded yet.",
	}, func() float64 { return float64(waiting()) })
	m := &metrics{
		apps: newAppMetrics(reg),
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_fires_total",
			Help: "Fires recorded, by outcome and reason, without the canary's.",
		}, []string{"outcome", "reason"}),
		fenced: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_results_fenced_total",
			Help: "Results rejected because another session had taken over the fire.",
		}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_record_errors_total",
			Help: "Writes of results that failed and were repeated.",
		}),
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_record_batch_size",
			Help:    "Results recorded together.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 350, 500},
		}),
	}
	m.begin()
	return m
}

// begin creates the series of fires that were called, at 0. Prometheus sees no increase in a series
// whose first value is that of its first burst, and alerts compare those that failed with all.
func (m *metrics) begin() {
	m.outcomes.WithLabelValues(string(timer.Delivered), string(timer.ReasonNone))
	for _, why := range []timer.Reason{
		timer.ReasonExhausted, timer.ReasonNotRetried, timer.ReasonGaveUp, timer.ReasonGone,
		timer.ReasonRejected,
	} {
		m.outcomes.WithLabelValues(string(timer.Failed), string(why))
	}
}
