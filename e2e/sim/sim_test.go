package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-timer/carillon/e2e/sim"
)

var (
	first   = flag.Uint64("seed", 1, "the first seed")
	seeds   = flag.Int("seeds", 10, "how many seeds")
	runs    = flag.Int("runs", 1, "how often each seed is run")
	length  = flag.Duration("length", 20*time.Minute, "the simulated time of load and faults")
	logs    = flag.String("logs", "failures", "directory of the event logs of seeds that failed")
	mutants = flag.Bool("mutants", false, "try whether seeded bugs are caught")
	keep    = flag.Bool("keep", false, "keep the event logs of all seeds")
)

func TestSeeds(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *first + uint64(i)
		for run := range *runs {
			t.Run(fmt.Sprintf("%d/%d", seed, run), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				var res *sim.Result
				synctest.Test(t, func(t *testing.T) {
					res = sim.Run(t, sim.Draft(seed, *length), sim.DefaultSettings())
				})
				t.Logf("%s: %s", time.Since(began).Round(time.Millisecond), res.Summary())
				if len(res.Broken) == 0 && !*keep {
					return
				}
				file := filepath.Join(*logs, fmt.Sprintf("seed-%d-%d.log", seed, run))
				if err := os.MkdirAll(*logs, 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, res.Log, 0o600); err != nil {
					t.Fatal(err)
				}
				if len(res.Broken) > 0 {
					t.Fatalf("its events are in %s; run it again: make sim SEED=%d RUNS=20", file, seed)
				}
			})
		}
	}
}

// Each mutant is caught by some seed. It takes minutes: only with -mutants.
func TestMutants(t *testing.T) {
	t.Parallel()
	if !*mutants {
		t.Skip("only with -mutants (make sim-mutants)")
	}
	for name, mutate := range sim.Mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := sim.DefaultSettings()
			set.Mutate = mutate
			began := time.Now()
			for seed := *first; seed < *first+100; seed++ {
				var res *sim.Result
				synctest.Test(t, func(t *testing.T) { res = sim.Run(t, sim.Draft(seed, *length), set) })
				if len(res.Broken) > 0 {
					t.Logf("caught by seed %d after %s: %s", seed, time.Since(began).Round(time.Second), res.Broken[0])
					return
				}
			}
			t.Fatal("not caught within 100 seeds")
		})
	}
}
