package executor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ inactiveDeferred prometheus.Counter }

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
		"carillon_executor_inflight_used_ratio",
		"Used part of the room for fires in flight, by their number or bodies; at 1 no task is taken.",
		s.inflight.Used,
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
		func() float64 { return float64(s.lookups.Pending()) },
	)
	return &metrics{
		inactiveDeferred: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_executor_inactive_deferred_total",
			Help: "Fires deferred until their timer is active again.",
		}),
	}
}
