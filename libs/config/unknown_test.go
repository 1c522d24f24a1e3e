package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
)

func TestUnknownVariablesAreNamedWithTheNearest(t *testing.T) {
	t.Parallel()
	for unknown, nearest := range map[string]string{
		"CARILLON_HTTPADDR": "CARILLON_HTTP_ADDR", "CARILLON_CALLBACK_ALOW": "CARILLON_CALLBACK_ALLOW", "CARILLON_TRUST_HEADERS": "CARILLON_TRUST_HEADER",
		"CARILLON_ENCRYPTION_KEY": "CARILLON_ENCRYPTION_KEYS", "CARILLON_ADMINKEY": "CARILLON_ADMIN_KEY", "CARILLON_MYSQL_URL": "CARILLON_MYSQL_DSN",
		"CARILLON_zone": "CARILLON_ZONE", "CARILLON_LOG_LEVL": "CARILLON_LOG_LEVEL",
		"CARILLON_TEST_CALL": "CARILLON_TEST_CALLS", "CARILLON_TEST_CLOK": "CARILLON_TEST_CLOCK",
	} {
		err := config.CheckEnv([]string{"PATH=/bin", "CARILLON_ZONE=UTC", unknown + "=hunter2"})
		var p *config.Problems
		require.ErrorAs(t, err, &p, unknown)
		require.Len(t, p.List, 1)
		require.Contains(t, p.List[0], unknown+": no such setting")
		require.Contains(t, p.List[0], nearest+":", "%s", p.List[0])
		require.NotContains(t, p.List[0], "hunter2")
	}
	require.NoError(t, config.CheckEnv(nil))
	require.NoError(
		t,
		config.CheckEnv(
			[]string{
				"CARILLON_API_KEY=x",
				"CARILLON_CONFIG=/x",
				"CARILLON_PRINT_CONFIG=true",
				"CARILLON_ACTIVE_HELP=0",
				"CARILLON_COMPLETION_DESCRIPTIONS=off",
				"CARILLONX=1",
				"X_CARILLON_Y=2",
			},
		),
	)
}

// TestAddressesOfServicesAreNoSettings covers the variables that Kubernetes sets for services named
// carillon, carillon-api and so on.
func TestAddressesOfServicesAreNoSettings(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"CARILLON", "CARILLON_API", "CARILLON_MY_RELEASE_CARILLON_API"} {
		require.NoError(t, config.CheckEnv([]string{
			service + "_SERVICE_HOST=10.0.0.1",
			service + "_SERVICE_PORT=8080",
			service + "_SERVICE_PORT_HTTP=8080",
			service + "_PORT=tcp://10.0.0.1:8080",
			service + "_PORT_8080_TCP=tcp://10.0.0.1:8080",
			service + "_PORT_8080_TCP_PROTO=tcp",
			service + "_PORT_8080_TCP_PORT=8080",
			service + "_PORT_8080_TCP_ADDR=10.0.0.1",
		}))
	}
	require.Error(t, config.CheckEnv([]string{"CARILLON_HTTP_PORT=8080"}), "somebody's own")
}

// TestVariablesOfTheRepositoryAreKnown checks that every variable that this repository uses is a
// setting or exempt, so that no script stops the programs it starts.
func TestVariablesOfTheRepositoryAreKnown(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	name := regexp.MustCompile(`\bCARILLON_[A-Z0-9_]*[A-Z0-9]\b`)
	examples := []string{ // of this package's own tests and comments
		"libs/config",
	}
	seen := 0
	for _, dir := range []string{
		"scripts", "deploy", "docs", "helm", "e2e", "services", "libs", ".ci",
		"Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
	} {
		require.NoError(
			t,
			filepath.WalkDir(
				filepath.Join(root, dir),
				func(path string, d fs.DirEntry, err error) error {
					if err == nil && d.IsDir() && d.Name() == "failures" {
						return fs.SkipDir // logs and data of runs, which git ignores
					}
					if err != nil || d.IsDir() {
						return err
					}
					at, err := filepath.Rel(root, path)
					if err != nil ||
						slices.ContainsFunc(
							examples,
							func(p string) bool { return strings.HasPrefix(filepath.ToSlash(at), p+"/") },
						) {
						return err
					}
					b, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					for _, v := range name.FindAllString(string(b), -1) {
						seen++
						require.NoError(t, config.CheckEnv([]string{v + "=x"}), at)
					}
					return nil
				},
			),
		)
	}
	require.Greater(t, seen, 100)
}
