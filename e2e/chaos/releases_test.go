package chaos

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

func TestAddMigration(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	require.NoError(t, err)
	src := t.TempDir()
	require.NoError(
		t,
		os.CopyFS(filepath.Join(src, "libs/store"), os.DirFS(filepath.Join(root, "libs/store"))),
	)
	require.NoError(t, addMigration(src))
	found := func(pattern string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(src, "libs/store/sqlstore", pattern))
		require.NoError(t, err)
		require.Len(t, files, 1, pattern)
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		return string(text)
	}
	for _, engine := range []string{"mysql", "sqlite"} {
		require.Contains(
			t,
			found("migrations/"+engine+"/00002_next.sql"),
			"INSERT INTO schema_readers (version,min_reader) VALUES (2,1);",
		)
	}
	require.Contains(t, found("migrate.go"), "\nconst schemaVersion = 2\n")
}
