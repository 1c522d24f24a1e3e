package chaos

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// TestShort injects the faults that are over soon, on its own servers, because other tests use the
// shared ones. `make chaos` runs the other scenarios.
func TestShort(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED, UNTESTED: faults on real servers, which take two minutes")
	}
	if missing := absent(); missing != "" {
		if needed := os.Getenv("CARILLON_TEST_REQUIRE"); needed != "" {
			require.Empty(t, missing, "CARILLON_TEST_REQUIRE=%s", needed)
		}
		t.Skipf("SKIPPED, UNTESTED: faults on real servers: missing %s", missing)
	}
	root, err := cluster.Root()
	require.NoError(t, err)
	o := Options{Root: root, Bin: os.Getenv("CARILLON_BIN"), Rate: 300, Log: testLog{t}}
	o.Dir, err = filepath.Abs("failures")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(o.Dir, 0o750))
	o.Dir, err = os.MkdirTemp(o.Dir, "short-") //nolint:usetesting // the logs of a failure stay
	require.NoError(t, err)
	if o.Bin == "" {
		o.Bin = filepath.Join(o.Dir, "bin")
		require.NoError(t, cluster.Build(t.Context(), o.Bin))
	}
	var results []*Result
	// A run that is interrupted ends the servers and services that it started.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	require.NoError(
		t,
		Run(ctx, o, []*Scenario{Short()}, func(r *Result) { results = append(results, r) }),
	)
	require.Len(t, results, 1)
	require.Empty(t, results[0].Broken, "logs: %s", o.Dir)
	t.Logf("\n%s", Table(results))
	require.NoError(t, os.RemoveAll(o.Dir))
}

// absent names the first missing program that a run needs and its scripts cannot install.
func absent() string {
	if os.Getuid() == 0 {
		return "" // the scripts install what is missing
	}
	for _, program := range []string{"mariadbd", "redis-server", "java"} {
		_, err := exec.LookPath(program)
		if err == nil {
			continue
		}
		if _, err = os.Stat(filepath.Join("/usr/sbin", program)); err != nil {
			return program
		}
	}
	return ""
}

// testLog writes a run's lines to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

func TestScenariosHaveNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range append(Scenarios(), ClusterScenarios()...) {
		require.NotEmpty(t, s.Name)
		require.NotEmpty(t, s.About)
		require.NotNil(t, s.Do)
		require.NotContains(t, names, s.Name)
		names = append(names, s.Name)
	}
	require.False(t, slices.Contains(names, Short().Name))
}
