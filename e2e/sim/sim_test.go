package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/sim"
)

func TestSeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		res := sim.Run(t, sim.Draft(1, 20*time.Minute), sim.DefaultSettings())
		t.Log(res.Summary())
		require.Empty(t, res.Broken)
	})
}
