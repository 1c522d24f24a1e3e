package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/bench"
)

// TestBenchTellsAllFaults: that timers are left is told also after a phase with another fault.
func TestBenchTellsAllFaults(t *testing.T) {
	t.Parallel()
	late := &bench.Result{Groups: []bench.GroupResult{{Missing: 1}}}
	left := &bench.Result{CleanUpFail: "delete them"}
	r := benchReport{Phases: []*bench.Result{late, left}}
	require.ErrorContains(t, r.fault(), "delete them")
	require.ErrorContains(t, r.fault(), "a fire was early, missing or repeated")
	require.NoError(t, (&benchReport{Phases: []*bench.Result{{}}}).fault())
}
