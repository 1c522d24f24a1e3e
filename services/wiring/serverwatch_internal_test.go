package wiring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// lockedBuffer is a log that a test reads while others write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was written since the last call.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

// TestServerWatchLogsCauses: one line for each cause of an outage, and one when it is over.
func TestServerWatchLogsCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		var answer atomic.Pointer[func() error]
		w := &serverWatch{
			ping: func(context.Context) error { return (*answer.Load())() },
			log:  zerolog.New(&out),
			err:  errWaiting,
		}
		require.ErrorIs(t, w.checkAtStart(), errWaiting)
		port := 0
		answers := func(f func() error) { answer.Store(&f) }
		answers(func() error {
			port++
			return fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:6379: timeout", port)
		})
		w.start()
		pass := func() (lines []string) {
			time.Sleep(10 * watchEvery)
			synctest.Wait()
			return strings.Split(strings.TrimSpace(out.take()), "\n")
		}
		lines := pass()
		require.Len(t, lines, 1, "the port differs, the cause does not")
		require.Contains(t, lines[0], `"level":"warn"`)
		require.ErrorContains(t, w.check(t.Context()), "timeout")
		require.ErrorContains(t, w.checkAtStart(), "timeout")

		answers(func() error { return context.DeadlineExceeded })
		require.Empty(t, pass()[0], "another part of the attempt took the time")
		answers(func() error { return errors.New("NOAUTH") })
		lines = pass()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "NOAUTH")

		answers(func() error { return nil })
		lines = pass()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "available again")
		require.NoError(t, w.check(t.Context()))

		answers(func() error { return errors.New("NOAUTH") })
		require.Contains(t, pass()[0], "NOAUTH", "another outage")
		require.Error(t, w.check(t.Context()))
		require.NoError(t, w.checkAtStart(), "it was reached once")
		w.stop()
		w.wg.Wait()
	})
}
