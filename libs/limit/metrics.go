package limit

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a limiter.
type metrics struct {
	refusals *prometheus.CounterVec
	errors   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_rate_limited_total",
			Help: "Refused starts, by reason: no rate token, no call slot, the executor's share, behind waiting fires, before the shared state answered, or while it is unavailable.",
		}, []string{"reason"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_limit_sync_errors_total",
			Help: "Synchronizations with the shared limit state that failed, for all apps or for some.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.refusals, m.errors)
	}
	return m
}

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }
