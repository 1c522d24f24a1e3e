package limittest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// attempt is one run of a test. It collects the failures instead of reporting them.
type attempt struct {
	*testing.T

	mu           sync.Mutex
	failures     []string
	longestStall time.Duration // longest time in which this process or the shared state was stalled
}

func (t *attempt) noteStall(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longestStall = max(t.longestStall, d)
}

func (t *attempt) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *attempt) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

// FailNow ends the attempt. It must run in the goroutine of the test.
func (t *attempt) FailNow() {
	t.Errorf("the attempt ends here")
	runtime.Goexit()
}

// retryIfStalled repeats a test that failed while this process or the shared state was stalled. The
// promises depend on times, which a stalled machine cannot keep. A failure without a stall counts.
func retryIfStalled(t *testing.T, test func(*attempt)) {
	t.Helper()
	const (
		tries      = 20
		checkEvery = 5 * time.Millisecond
		minStall   = 50 * time.Millisecond // stalls that a test must tolerate
	)
	for n := 1; ; n++ {
		g := &attempt{T: t}
		over := make(chan struct{})
		go func() {
			defer close(over)
			test(g)
		}()
		for last, ends := time.Now(), false; !ends; {
			select {
			case <-over:
				ends = true
			case <-time.After(checkEvery):
			}
			g.noteStall(time.Since(last))
			last = time.Now()
		}
		g.mu.Lock()
		failures, longestStall := slices.Clone(g.failures), g.longestStall
		g.mu.Unlock()
		switch {
		case len(failures) == 0:
			return
		case longestStall < minStall || n == tries:
			require.Fail(
				t,
				strings.Join(failures, "\n"),
				"attempt %d, with no stall longer than %s",
				n,
				longestStall,
			)
		}
		t.Logf("repeating after a stall of %s: %s", longestStall, failures[0])
	}
}
