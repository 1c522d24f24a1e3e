package sqliteengine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// TestTheLogShrinksAfterABackup checks that the disk gets back what the write-ahead log took while a
// backup was open, before the process ends.
func TestTheLogShrinksAfterABackup(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	e, err := Open(ctx, dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	exec := func(text string) {
		require.NoError(t, e.Transact(ctx, func(ctx context.Context, c engine.Runner) error {
			_, err := c.ExecContext(ctx, text)
			return err //nolint:wrapcheck // it is nil
		}))
	}
	size := func() int64 {
		f, err := os.Stat(filepath.Join(dir, File+"-wal"))
		require.NoError(t, err)
		return f.Size()
	}
	exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
	s, err := OpenSnapshot(ctx, dir)
	require.NoError(t, err)
	for size() < maxLog+10<<20 {
		exec("REPLACE INTO t VALUES (1,zeroblob(10000000))")
	}
	require.NoError(t, s.Close())
	for range 3 { // a checkpoint, and a log that begins anew
		exec("REPLACE INTO t VALUES (2,'')")
	}
	require.LessOrEqual(t, size(), int64(maxLog))
}
