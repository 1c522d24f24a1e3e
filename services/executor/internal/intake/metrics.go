package intake

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	claimsLost   prometheus.Counter
	taskBatch    prometheus.Histogram
	taskAge      prometheus.Gauge
	tasksWaiting prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		claimsLost: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_claims_lost_total",
			Help: "Claims that were not won, of tasks and polls: the fire was claimed by another session, finished, or of another revision.",
		}),
		taskBatch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "carillon_task_batch_size",
			Help:    "Tasks claimed together.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 350, 500},
		}),
		tasksWaiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_tasks_waiting",
			Help: "Received tasks that wait for their claim.",
		}),
		taskAge: f.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_task_age_seconds",
			Help: "Age, from publication to claim, of the oldest task in the last claim outside the low-priority topic.",
		}),
	}
}
