package api

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	shared "github.com/carillon-timer/carillon/libs/metrics"
)

type metrics struct {
	requests      *prometheus.CounterVec
	latency       *prometheus.HistogramVec
	batch         *prometheus.HistogramVec
	notifications *prometheus.CounterVec
	denied        *prometheus.CounterVec
	redriven      prometheus.Counter
	deadLetters   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_requests_total",
			Help: "Requests answered, by route, method and status code.",
		}, []string{"route", "method", "code"}),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "carillon_api_request_seconds",
			Help:    "Time to answer a request.",
			Buckets: shared.LatencyBuckets(),
		}, []string{"route", "method"}),
		batch: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "carillon_api_batch_size",
			Help:    "Requests that shared a transaction.",
			Buckets: shared.BatchBuckets(),
		}, []string{"write"}),
		notifications: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_change_notifications_total",
			Help: "Change notifications for the topic timers-changed, by result.",
		}, []string{"result"}),
		denied: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_denied_total",
			Help: "Requests denied, by reason.",
		}, []string{"reason"}),
		redriven: f.NewCounter(prometheus.CounterOpts{
			Name: "carillon_api_redriven_total",
			Help: "Failed fires created again by redrives.",
		}),
		deadLetters: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_dead_letters_total",
			Help: "Dead letters read after redrives: acknowledged (acked), or returned to the topic (left).",
		}, []string{"result"}),
	}
}
