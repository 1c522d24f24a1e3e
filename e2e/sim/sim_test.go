package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/e2e/sim"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	seeds     = flag.Int("seeds", 100, "how many seeds; 4 with -short")
	runs      = flag.Int("runs", 1, "runs of each seed")
	length    = flag.Duration(
		"length",
		2*time.Hour,
		"the simulated time of load and faults; 20 minutes at most with -short",
	)
	logs     = flag.String("logs", "failures", "directory of the event logs of seeds that failed")
	keepLogs = flag.Bool("keep", false, "keep the event logs of all seeds")
	sqlite   = flag.Bool("sqlite", false, "store in SQLite instead of maps")
	mutants  = flag.Bool(
		"mutants",
		false,
		"try all mutants, each on up to 100 seeds; otherwise some, on the first seeds",
	)
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(1000) //nolint:mnd // simulations are small and short: memory for time
	if testing.Short() {
		*seeds, *length = min(*seeds, 4), min(*length, 20*time.Minute)
	}
	goleak.VerifyTestMain(m)
}

func simulate(
	t *testing.T,
	seed uint64,
	length time.Duration,
	settings sim.Settings,
) (res *sim.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { res = sim.Run(t, sim.Draft(seed, length), settings) })
	return res
}

// checkSeed simulates a seed and fails if a promise was broken. Then it writes the event log and
// prints the command that repeats the seed.
func checkSeed(t *testing.T, seed uint64, run int, length time.Duration, settings sim.Settings) {
	t.Helper()
	began := time.Now()
	res := simulate(t, seed, length, settings)
	t.Logf("%s: %s", time.Since(began).Round(time.Millisecond), res.Summary())
	if len(res.Broken) == 0 && !*keepLogs {
		return
	}
	file, err := filepath.Abs(filepath.Join(*logs, fmt.Sprintf("seed-%d-%d.log", seed, run)))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(*logs, 0o750))
	require.NoError(t, os.WriteFile(file, res.Log, 0o600))
	again := fmt.Sprintf("make sim SEED=%d RUNS=20 LENGTH=%s", seed, length)
	if settings.SQLite {
		again += " ARGS=-sqlite"
	}
	require.Empty(t, res.Broken, "the events are in %s; repeat with: %s", file, again)
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		for run := range *runs {
			t.Run(fmt.Sprintf("%d/%d", seed, run), func(t *testing.T) {
				t.Parallel()
				settings := sim.DefaultSettings()
				settings.SQLite = *sqlite
				checkSeed(t, seed, run, *length, settings)
			})
		}
	}
}

// TestSeedsOnSQLite runs a few shorter simulations on a database, because the services may rely on
// behaviour that the store's suite does not test. Each takes as long as three on maps, so it runs
// one for 25 seeds.
func TestSeedsOnSQLite(t *testing.T) {
	t.Parallel()
	for i := range (*seeds + 24) / 25 {
		seed := *firstSeed + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			settings := sim.DefaultSettings()
			settings.SQLite = true
			checkSeed(t, seed, 0, min(*length, 20*time.Minute), settings)
		})
	}
}

// TestMissingFiresAreFound checks that schedulers find fires that were never made.
func TestMissingFiresAreFound(t *testing.T) {
	t.Parallel()
	settings := sim.DefaultSettings()
	for _, m := range sim.Mutants {
		if m.Name == sim.MutantLostInstants {
			settings.Mutate = m.Mutate
		}
	}
	require.NotNil(t, settings.Mutate)
	require.Positive(t, simulate(t, 1, 4*time.Hour, settings).MissingFound)
}

// TestMutants checks that a seed catches each mutant.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range sim.Mutants {
		most := uint64(5) //nolint:mnd // seeds
		if *mutants {
			most = 100
		} else if !m.Obvious || testing.Short() {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			settings := sim.DefaultSettings()
			settings.Mutate = m.Mutate
			for seed := *firstSeed; seed < *firstSeed+most; seed++ {
				res := simulate(t, seed, *length, settings)
				if len(res.Broken) == 0 {
					continue
				}
				t.Logf(
					"%s: caught by seed %d: %s ... %s",
					m.Name,
					seed,
					res.Broken[0],
					res.Broken[len(res.Broken)-1],
				)
				if *mutants ||
					seed >= *firstSeed+uint64(*seeds) { // otherwise TestSeeds runs the seed too
					require.Empty(
						t,
						simulate(t, seed, *length, sim.DefaultSettings()).Broken,
						"the seed fails by itself",
					)
				}
				return
			}
			require.Fail(t, "not caught", "within %d seeds", most)
		})
	}
}
