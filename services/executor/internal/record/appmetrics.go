package record

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// maxApps is how many apps have series of their own per process, the first ones it meets.
	// Series are never removed, and apps come from outside.
	maxApps   = 200
	otherApps = "(others)"
)

// appMetrics are the metrics labelled by app.
type appMetrics struct {
	fires    *prometheus.CounterVec
	lateness *prometheus.SummaryVec

	mu       sync.Mutex
	labelled map[string]bool
}

func newAppMetrics(reg prometheus.Registerer) *appMetrics {
	f := promauto.With(reg)
	return &appMetrics{
		fires: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_app_fires_total",
			Help: "Fires recorded, by app, outcome and reason, without the canary's. Beyond 200 apps the app is (others).",
		}, []string{"app", "outcome", "reason"}),
		lateness: f.NewSummaryVec(prometheus.SummaryOpts{
			Name: "carillon_app_lateness_seconds",
			Help: "Sum and number of the lateness of called fires, by app. Beyond 200 apps the app is (others).",
		}, []string{"app"}),
		labelled: make(map[string]bool),
	}
}

// recorded counts a fire. An app whose name is no longer known counts as (others).
func (m *appMetrics) recorded(app string, o *timer.Outcome) {
	app = m.label(app)
	m.fires.WithLabelValues(app, string(o.Kind), string(o.Reason)).Inc()
	if o.Attempts > 0 {
		//nolint:mnd // ms to s
		m.lateness.WithLabelValues(app).Observe(float64(o.LatenessMS) / 1000)
	}
}

func (m *appMetrics) label(app string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if app == "" || !m.labelled[app] && len(m.labelled) >= maxApps {
		return otherApps
	}
	m.labelled[app] = true
	return app
}
