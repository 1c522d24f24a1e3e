package selfcheck

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon-timer/carillon/libs/callback"
)

// Caller is the target of canary fires: a call only records its lateness. Every executor has one,
// even if CARILLON_CANARY is 0 there, because another process may have created the timer.
type Caller struct{ lateness prometheus.Histogram }

// NewCaller returns a caller. Each registry can have one.
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

// Call records the lateness. It always succeeds.
func (c *Caller) Call(_ context.Context, r *callback.Request) callback.Result {
	c.lateness.Observe(r.Start.Sub(time.UnixMilli(r.PlannedMS)).Seconds())
	return callback.Result{Class: callback.Success}
}
