package fires

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	redriven prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		redriven: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_api_redriven_total",
			Help: "Failed fires created again by redrives.",
		}),
	}
}
