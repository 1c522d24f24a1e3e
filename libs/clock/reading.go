package clock

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reading is the state of a clock, for operators.
type Reading struct {
	OffsetMS   int64     `json:"offset_ms"` // the store's clock minus the host's, as last measured
	MeasuredAt time.Time `json:"measured_at,omitzero"`
	AgeMS      int64     `json:"age_ms"` // of that measurement; of the clock before the first one
	Steady     bool      `json:"steady"` // measured, with no jump of the host's clock since
}

// Reading returns the state of the clock.
func (c *Clock) Reading() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readHost()
	r := Reading{
		OffsetMS: c.offset.Milliseconds(),
		AgeMS:    c.sinceMeasured().Milliseconds(),
		Steady:   c.steady,
	}
	if !c.measuredAt.IsZero() {
		r.MeasuredAt = c.measuredAt.UTC().Round(time.Millisecond)
	}
	return r
}

func (c *Clock) sinceMeasured() time.Duration {
	if c.measuredAt.IsZero() {
		return time.Since(c.createdAt)
	}
	return time.Since(c.measuredAt)
}

// Register registers the clock's metrics. Each registry can have one clock.
func (c *Clock) Register(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, read func(r Reading) float64) {
		f.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(c.Reading()) },
		)
	}
	const ms = 1000
	gauge(
		"carillon_clock_offset_seconds",
		"Measured offset of the store's clock to this host's.",
		func(r Reading) float64 {
			return float64(r.OffsetMS) / ms
		},
	)
	gauge(
		"carillon_clock_measured_age_seconds",
		"Time since the offset was measured; before the first measurement, since the process started.",
		func(r Reading) float64 { return float64(r.AgeMS) / ms },
	)
	gauge(
		"carillon_clock_steady",
		"1 if the offset was measured and this host's clock has not jumped since; 0 while nothing is called by this clock.",
		func(r Reading) float64 {
			if r.Steady {
				return 1
			}
			return 0
		},
	)
}
