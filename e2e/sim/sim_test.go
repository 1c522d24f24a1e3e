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
	runs      = flag.Int("runs", 1, "how often each seed is run")
	length    = flag.Duration(
		"length",
		2*time.Hour,
		"the simulated time of load and faults; 20 minutes at most with -short",
	)
	logs     = flag.String("logs", "failures", "directory of the event logs of seeds that failed")
	keepLogs = flag.Bool("keep", false, "keep the event logs of all seeds")
	sqlite   = flag.Bool("sqlite", false, "keep the truth in SQLite, in place of maps")
	mutants  = flag.Bool(
		"mutants",
		false,
		"try all mutants, on up to 100 seeds each; otherwise a few, on the first seeds",
	)
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(1000) //nolint:mnd // worlds are small and short-lived: memory for time
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

// checkSeed lives a seed and fails where a promise was broken. The event log is kept then, and the
// command told that lives the seed again.
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
	require.Empty(t, res.Broken, "the events are in %s; once more: %s", file, again)
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

// A few shorter lives with the truth in a database: what the store's suite does not ask for may be
// relied on all the same.
func TestSeedsOnSQLite(t *testing.T) {
	t.Parallel()
	for seed := *firstSeed; seed < *firstSeed+4; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			settings := sim.DefaultSettings()
			settings.SQLite = true
			checkSeed(t, seed, 0, min(*length, 20*time.Minute), settings)
		})
	}
}

// Each mutant is caught by some seed.
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
					seed >= *firstSeed+uint64(*seeds) { // otherwise TestSeeds lives it too
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
