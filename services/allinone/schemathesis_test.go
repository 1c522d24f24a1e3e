package allinone_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// schemathesis returns the program that scripts/schemathesis-oracle.sh installed.
func schemathesis(t *testing.T) string {
	t.Helper()
	return testenv.Oracle(t, "CARILLON_TEST_SCHEMATHESIS", "scripts/schemathesis-oracle.sh",
		"holds the API against its description")
}

// TestTheAPIIsAsDescribed checks the API against its description: every answer is documented and
// valid, none is 5xx, invalid requests are refused, unknown methods too, and so are requests
// without a required key. The requests are the same on every run.
func TestTheAPIIsAsDescribed(t *testing.T) {
	t.Parallel()
	program := schemathesis(t)
	admin := apikey.New().Reveal()
	for name, c := range map[string]struct{ env, args []string }{
		"without keys": {nil, []string{"--generation-with-security-parameters", "false", "--exclude-checks", "positive_data_acceptance,ignored_auth"}},
		// A request that fits the schema may still be invalid: it cannot express rules between
		// fields, or the syntax of texts such as cron expressions.
		"with keys": {[]string{"CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin}, []string{"-H", "Authorization: Bearer " + admin, "--exclude-checks", "positive_data_acceptance"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := devtest.Start(t, t.TempDir(), c.env...)
			defer d.Stop(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append([]string{
				"run",
				d.Api + "/api/v2/openapi.json",
				"--phases",
				"examples,coverage,fuzzing,stateful",
				"--max-examples",
				"3",
				"--generation-deterministic",
				"--continue-on-failure",
				"--warnings",
				"off",
				"--no-color",
			}, c.args...)...)
			cmd.Dir = t.TempDir()
			hooks, err := os.ReadFile("oracle/hooks.py")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(cmd.Dir+"/hooks.py", hooks, 0o600))
			cmd.Env = append(
				os.Environ(),
				"SCHEMATHESIS_HOOKS="+cmd.Dir+"/hooks.py",
				"PYTHONDONTWRITEBYTECODE=1",
			)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "No issues found")
			require.Regexp(t, `Tested: [56][0-9]`, string(out))
			require.NotContains(t, d.ErrOut.String(), "panic")
		})
	}
}
