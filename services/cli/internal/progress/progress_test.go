package progress_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onTerminal runs do with a terminal of 80 columns and returns what was written to it.
func onTerminal(t *testing.T, do func(tty *os.File)) string {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}))
	written := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error, because the terminal is closed
		written <- string(text)
	}()
	do(tty)
	require.NoError(t, tty.Close())
	return <-written
}

// cleared is what removes the bar.
const cleared = "\x1b[2K\r"

func TestBarOnTerminal(t *testing.T) {
	t.Parallel()
	text := onTerminal(t, func(tty *os.File) {
		b := progress.New(tty, "applying timers", 400)
		b.Add(100)
		require.NoError(t, b.Above(func() error {
			_, err := tty.WriteString("timer shop/a created\n")
			return err
		}))
		b.Add(900)
		b.Done()
		b.Done()
		b.Add(1)
		b.Set(1, 2)
	})
	require.Contains(t, text, "applying timers   0% |")
	require.Contains(t, text, " 25% |")
	require.Contains(t, text, "(100/400)")
	require.Regexp(
		t,
		regexp.QuoteMeta(cleared)+"timer shop/a created\r\n\rapplying timers  25%",
		text,
	)
	require.True(t, strings.HasSuffix(text, cleared), "nothing of it stays: %q", text)
	for line := range strings.SplitSeq(text, "\r") {
		line, _, _ = strings.Cut(line, "\x1b")
		require.LessOrEqual(t, len([]rune(line)), 80)
	}
}

func TestTotalBecomesKnown(t *testing.T) {
	t.Parallel()
	text := onTerminal(t, func(tty *os.File) {
		b := progress.New(tty, "redriving", progress.Unknown)
		b.Add(70)
		b.Set(80, progress.Unknown)
		b.Set(100, 200)
		b.Set(200, 200)
		b.Set(200, 800) // it had ended, and there is more
		b.Set(900, 0)
		b.Done()
	})
	for _, shown := range []string{"redriving (70/-)", "(80/-)", " 50% |", "(100/200)", " 25% |", "(200/800)"} {
		require.Contains(t, text, shown)
	}
	require.NotContains(t, text, "900")
	require.True(t, strings.HasSuffix(text, cleared), "%q", text)
}

// TestNoBarElsewhere checks that a file, a pipe and a buffer never get a bar.
func TestNoBarElsewhere(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	var buffer bytes.Buffer
	for _, w := range []io.Writer{file, &buffer} {
		b := progress.New(w, "applying timers", 4)
		require.Nil(t, b)
		b.Add(1)
		b.Set(1, 2)
		failure := errors.New("the disk is full")
		require.Equal(t, failure, b.Above(func() error { return failure }))
		b.Done()
	}
	require.Empty(t, buffer.String())
	info, err := file.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
	require.Empty(t, onTerminal(t, func(tty *os.File) {
		require.Nil(t, progress.New(tty, "applying timers", 0), "there is nothing to do")
	}))
}
