package delivery

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	lateness       prometheus.Histogram
	callSeconds    prometheus.Histogram
	activeAttempts prometheus.Gauge
	limitDeferred  prometheus.Counter
}

var (
	latenessBuckets = []float64{
		.001, .0025, .005, .01, .02, .05, .1, .25, .5,
		1, 2.5, 5, 10, 30, 60, 300, 1800, 3600,
	}
	callBuckets = []float64{
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
	}
)

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		limitDeferred: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_executor_limit_deferred_total",
			Help: "Fires deferred until a time by the limits of their app or the breaker of their endpoint.",
		}),
		lateness: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_lateness_seconds",
			Help:    "Start of the first attempt minus the planned time, without the canary's.",
			Buckets: latenessBuckets,
		}),
		callSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_callback_seconds",
			Help:    "Duration of one attempt, without the canary's.",
			Buckets: callBuckets,
		}),
		activeAttempts: f.NewGauge(
			prometheus.GaugeOpts{
				Name: "carillon_executor_active_attempts",
				Help: "Attempts in flight.",
			},
		),
	}
}
