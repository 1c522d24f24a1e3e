package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/e2e/sim"
)

var (
	first   = flag.Uint64("seed", 1, "the first seed")
	seeds   = flag.Int("seeds", 100, "how many seeds; 4 with -short")
	runs    = flag.Int("runs", 1, "how often each seed is run")
	length  = flag.Duration("length", 20*time.Minute, "the simulated time of load and faults; half of it with -short")
	logs    = flag.String("logs", "failures", "directory of the event logs of seeds that failed")
	keep    = flag.Bool("keep", false, "keep the event logs of all seeds")
	exact   = flag.Bool("exact", false, "ask the database each time, also for what is known not to have changed")
	mutants = flag.Bool("mutants", false, "try all mutants, on up to 100 seeds each; otherwise a few that a seed or two catch")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		*seeds, *length = min(*seeds, 4), *length/2
	}
	goleak.VerifyTestMain(m)
}

func live(t *testing.T, seed uint64, set sim.Settings) (res *sim.Result) {
	t.Helper()
	set.Exact = *exact
	synctest.Test(t, func(t *testing.T) { res = sim.Run(t, sim.Draft(seed, *length), set) })
	return res
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *first + uint64(i)
		for run := range *runs {
			t.Run(fmt.Sprintf("%d/%d", seed, run), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				res := live(t, seed, sim.DefaultSettings())
				t.Logf("%s: %s", time.Since(began).Round(time.Millisecond), res.Summary())
				if len(res.Broken) == 0 && !*keep {
					return
				}
				file := filepath.Join(*logs, fmt.Sprintf("seed-%d-%d.log", seed, run))
				require.NoError(t, os.MkdirAll(*logs, 0o750))
				require.NoError(t, os.WriteFile(file, res.Log, 0o600))
				require.Empty(t, res.Broken, "the events are in e2e/sim/%s; once more: make sim SEED=%d RUNS=20", file, seed)
			})
		}
	}
}

// Each mutant is caught by some seed.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range sim.Mutants {
		most := uint64(2) //nolint:mnd // seeds
		if *mutants {
			most = 100
		} else if !m.Obvious || testing.Short() {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			set := sim.DefaultSettings()
			set.Mutate = m.Mutate
			for seed := *first; seed < *first+most; seed++ {
				if res := live(t, seed, set); len(res.Broken) > 0 {
					t.Logf("%s: caught by seed %d: %s", m.Name, seed, res.Broken[0])
					return
				}
			}
			require.Fail(t, "not caught", "within %d seeds", most)
		})
	}
}
