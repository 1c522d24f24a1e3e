// Package metrics creates the registry that every program passes to its parts, and defines
// histogram buckets that several packages share. Nothing registers with Prometheus' default
// registry, so that two services in one process, and concurrent tests, each have their own.
package metrics

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Namespace is the first part of every metric's name.
const Namespace = "carillon"

// New returns a registry with the collectors of the Go runtime and the process, and
// carillon_build_info. tzdata is the version of the time zones.
func New(version, tzdata string) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: Namespace,
		Name:      "build_info",
		Help:      "Always 1; its labels say which program this is.",
		ConstLabels: prometheus.Labels{
			"version": version,
			"go":      runtime.Version(),
			"tzdata":  tzdata,
		},
	})
	info.Set(1)
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering the collectors of the runtime: %w", err)
		}
	}
	return r, nil
}

// LatencyBuckets returns upper bounds for the duration of calls, in seconds: 0.5 ms to 30 s.
func LatencyBuckets() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
}

// BatchBuckets returns upper bounds for the number of rows or messages in a batch.
func BatchBuckets() []float64 { return []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000} }
