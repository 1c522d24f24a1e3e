package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/testenv/document"
)

// TestCommandsOfDocuments runs the commands of documents that take minutes, with smaller numbers.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	one := runnerNamed("allinone")
	t.Run(one.name, func(t *testing.T) {
		t.Parallel()
		runOnShared(t, one, func(t *testing.T, env *environment) {
			blocks, err := document.Needing("../..", "docs/benchmarks.md", "minutes")
			require.NoError(t, err)
			said, err := document.Run(t.Context(), t.TempDir(), []string{
				"CARILLON_API=" + env.API(), "CARILLON_API_KEY=" + client.AdminKey,
			}, blocks,
				"carillon bench ", binDir+"/carillon bench --no-ceiling --settle 60s ",
				"rate:1000:30s", "rate:20:1s",
				"burst:100000", "burst:20",
				"cron:3000:60s", "cron:2:1s",
				"minute:50000:500", "minute:50:5",
				"long:100000", "long:20",
			)
			require.NoError(t, err)
			const groups = 5 // the minute has crons and one-shots
			good := strings.Count(said, " due, 0 missing, 0 early, 0 repeated")
			require.Equal(t, groups, good, said)
		})
	})
}
