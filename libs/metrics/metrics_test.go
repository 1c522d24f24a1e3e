package metrics_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/metrics"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	for range 2 { // a second registry is independent of the first
		r, err := metrics.New("v1", "2025c")
		require.NoError(t, err)
		families, err := r.Gather()
		require.NoError(t, err)
		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
		}
		require.Subset(
			t,
			names,
			[]string{"carillon_build_info", "go_goroutines", "process_open_fds"},
		)
	}
}

func TestBucketsRise(t *testing.T) {
	t.Parallel()
	for _, b := range [][]float64{metrics.LatencyBuckets(), metrics.BatchBuckets()} {
		require.True(t, slices.IsSorted(b))
		require.Len(t, slices.Compact(slices.Clone(b)), len(b))
	}
}
