package selfcheck

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon-timer/carillon/libs/callback"
)

// Caller is the canary's target: a call does nothing but note how late it starts. Every executor
// has it, also where CARILLON_CANARY is 0: another process may have made the timer.
type Caller struct{ lateness prometheus.Histogram }

// NewCaller returns a caller, one per registry.
func NewCaller(reg prometheus.Registerer) *Caller {
	return &Caller{promauto.With(reg).NewHistogram(prometheus.HistogramOpts{
		Name: "carillon_canary_call_lateness_seconds",
		Help: "Start minus planned instant of the canary fires that this executor called.",
		Buckets: []float64{
			.001,
			.0025,
			.005,
			.01,
			.02,
			.05,
			.1,
			.25,
			.5,
			1,
			2.5,
			5,
			10,
			30,
			60,
			300,
			1800,
			3600,
		},
	})}
}

// Call notes the lateness. It always succeeds.
func (c *Caller) Call(_ context.Context, r *callback.Request) callback.Result {
	c.lateness.Observe(r.Start.Sub(time.UnixMilli(r.PlannedMS)).Seconds())
	return callback.Result{Class: callback.Success}
}
