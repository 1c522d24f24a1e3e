package executor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	lateness         prometheus.Histogram
	callSeconds      prometheus.Histogram
	activeAttempts   prometheus.Gauge
	limitDeferred    prometheus.Counter
	inactiveDeferred prometheus.Counter
}

var (
	latenessBuckets = []float64{
		.001,
		.0025,
		.005,
		.01,
		.02,
		.05,
		.1,
		.25,
		.5,
		1,
		2.5,
		5,
		10,
		30,
		60,
		300,
		1800,
		3600,
	}
	callBuckets = []float64{
		.0005,
		.001,
		.0025,
		.005,
		.01,
		.025,
		.05,
		.1,
		.25,
		.5,
		1,
		2.5,
		5,
		10,
		30,
	}
)

func newMetrics(s *Service, reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	gauge := func(name, help string, read func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	gauge(
		"carillon_executor_inflight_fires",
		"Fires in flight.",
		func() float64 { return float64(s.inflight.Len()) },
	)
	gauge(
		"carillon_executor_waiting",
		"Fires in flight that wait for their run time.",
		func() float64 { return float64(s.wheel.Len()) },
	)
	queued := func() float64 { return float64(s.queue.Len()) }
	gauge("carillon_executor_queued", "Due fires that wait for a worker.", queued)
	gauge(
		"carillon_executor_lookups",
		"Questions of due fires and of outcomes that the store has not answered yet.",
		func() float64 { return float64(s.lookups.pending()) },
	)
	return &metrics{
		limitDeferred: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_executor_limit_deferred_total",
			Help: "Fires deferred until a time by the limits of their app or the breaker of their endpoint.",
		}),
		inactiveDeferred: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_executor_inactive_deferred_total",
			Help: "Fires deferred until their timer is active again.",
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
