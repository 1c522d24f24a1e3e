package api

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	shared "github.com/carillon-timer/carillon/libs/metrics"
)

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_requests_total",
			Help: "Requests answered, by route, method and status code; 499: the client was gone.",
		}, []string{"route", "method", "code"}),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "carillon_api_request_seconds",
			Help:    "Time to answer a request.",
			Buckets: shared.LatencyBuckets(),
		}, []string{"route", "method"}),
	}
}
