package limit

import "github.com/prometheus/client_golang/prometheus"

// metrics of a limiter.
type metrics struct {
	refusals *prometheus.CounterVec
	errors   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_rate_limited_total",
			Help: "Starts that were refused: for want of a rate token, a concurrency slot, the executor's share, behind those that wait, until the ledger answers, or while it is away.",
		}, []string{"why"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_limit_sync_errors_total",
			Help: "Exchanges with the shared ledger that failed.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.refusals, m.errors)
	}
	return m
}

func (m *metrics) refused(why string) { m.refusals.WithLabelValues(why).Inc() }
