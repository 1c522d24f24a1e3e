package writes

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	shared "github.com/carillon-timer/carillon/libs/metrics"
)

type metrics struct {
	batch         *prometheus.HistogramVec
	notifications *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		batch: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "carillon_api_batch_size",
			Help:    "Requests that shared a transaction.",
			Buckets: shared.BatchBuckets(),
		}, []string{"write"}),
		notifications: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_change_notifications_total",
			Help: "Change notifications for the topic timers-changed, by result.",
		}, []string{"result"}),
	}
}
