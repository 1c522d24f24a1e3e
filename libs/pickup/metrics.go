package pickup

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	found     map[Question]prometheus.Counter
	throttled prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	recovered := f.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_fires_recovered_total",
		Help: "Fires that executors found late or without their executor, by cause: claimed by " +
			"an expired session, or overdue.",
	}, []string{"cause"})
	return &metrics{
		found: map[Question]prometheus.Counter{
			DueSoon: f.NewCounter(prometheus.CounterOpts{
				Name: "carillon_fires_polled_total",
				Help: "Fires that executors claimed from the store because no task had brought them.",
			}),
			Overdue:  recovered.WithLabelValues("overdue"),
			Orphaned: recovered.WithLabelValues("expired_session"),
		},
		throttled: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_polls_throttled_total",
			Help: "Polls for overdue fires put off because executors were overloaded.",
		}),
	}
}
