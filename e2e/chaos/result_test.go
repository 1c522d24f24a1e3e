package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	names := Scenarios()
	_, err := Save(path, []*Result{{Scenario: names[1].Name, Due: 1}, {Scenario: names[0].Name}})
	require.NoError(t, err)
	all, err := Save(path, []*Result{{Scenario: names[1].Name, Due: 2}})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, names[0].Name, all[0].Scenario)
	require.Equal(t, 2, all[1].Due, "the latest result of a scenario is kept")
}

func TestTableSaysWhatIsBroken(t *testing.T) {
	t.Parallel()
	f := &Fault{
		Name:     "a kill",
		Recovery: Recovery{OnTimeAfter: 4 * time.Second, TargetOnTime: 3 * time.Second},
	}
	table := Table(
		[]*Result{{About: "kills", Broken: []string{"1 missing"}, Missing: 1, Faults: []*Fault{f}}},
	)
	require.Contains(t, table, "kills **broken**")
	require.Contains(t, table, "**3.0 s missed**")
}

func TestTableGoesIntoADocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "README.md")
	require.NoError(
		t,
		os.WriteFile(
			path,
			[]byte("a\n<!-- chaos: begin -->\nold\n<!-- chaos: end -->\nb\n"),
			0o600,
		),
	)
	require.NoError(t, Insert(path, "chaos", "new\n"))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a\n<!-- chaos: begin -->\nnew\n<!-- chaos: end -->\nb\n", string(b))
	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	require.Error(t, Insert(path, "chaos", "new\n"))
}
