package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
)

// TestRestoreSurvivesSIGKILL kills restores of a store at any moment, and repeats the command until
// one finishes. The restored store has the same rows.
func TestRestoreSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	createTimers(t, data, 10_000)
	first := filepath.Join(t.TempDir(), "first")
	want := backUp(t, data, first)
	program, restored := filepath.Join(programDir(t), "carillon"), t.TempDir()
	var out string
	killed := 0
	for exited := false; !exited; {
		// Later kills give more time: each run verifies the backup first.
		within := time.Duration(200+50*killed) * time.Millisecond
		out, exited = runUpTo(t, within, program, "restore", first, "-data-dir", restored)
		if !exited {
			killed++
		}
	}
	t.Logf("killed %d times, then: %s", killed, out)
	// The last kill may have come after the end.
	require.Regexp(t, "^restored |it is not empty", out)
	have := backUp(t, restored, filepath.Join(t.TempDir(), "second"))
	require.Len(t, have.Tables, len(want.Tables))
	for i := range want.Tables {
		require.Equal(t, want.Tables[i].Parts, have.Tables[i].Parts, want.Tables[i].Name)
	}
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: restored})
	require.NoError(t, err)
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, s.Close())
}

// runUpTo runs a program and kills it at a random moment within a time. It returns what the program
// printed, if it ended by itself.
func runUpTo(
	t *testing.T, within time.Duration, program string, args ...string,
) (out string, exited bool) {
	t.Helper()
	var text strings.Builder
	run := exec.CommandContext(t.Context(), program, args...)
	run.Env = []string{"CARILLON_LOG_LEVEL=error"} // not the servers of other tests
	run.Stdout, run.Stderr = &text, &text
	require.NoError(t, run.Start())
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	timeout := time.NewTimer(time.Duration(rand.Int64N(int64(within))))
	defer timeout.Stop()
	select {
	case <-ended:
		return text.String(), true
	case <-timeout.C:
	}
	err := run.Process.Kill()
	<-ended
	if err != nil { // it has just ended by itself
		require.ErrorIs(t, err, os.ErrProcessDone)
		return text.String(), true
	}
	return "", false
}

// createTimers creates timers in a data directory.
func createTimers(t *testing.T, data string, n int) {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: data})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	for i := 0; i < n; {
		var items []store.NewTimer
		for range store.MaxBatch {
			items = append(items, store.NewTimer{App: "shop", Name: fmt.Sprint("timer-", i)})
			i++
		}
		out, err := s.Create(t.Context(), items, nil)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
	}
	require.NoError(t, s.Close())
}

func backUp(t *testing.T, data, dir string) *backup.Manifest {
	t.Helper()
	src, err := sqlstore.SnapshotSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: data})
	require.NoError(t, err)
	m, err := backup.Write(t.Context(), src, dir, backup.Options{PartRows: 500})
	require.NoError(t, err)
	require.NoError(t, src.Close())
	return m
}
