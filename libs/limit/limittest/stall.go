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

// attempt is one go at a test. What it finds is not yet the test's.
type attempt struct {
	*testing.T

	mu           sync.Mutex
	failures     []string
	longestStall time.Duration // the longest time in which this process, or the ledger, did nothing
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

// FailNow ends the try, from the goroutine that it runs in.
func (t *attempt) FailNow() {
	t.Errorf("the try ends here")
	runtime.Goexit()
}

// retryIfStalled runs a test again that failed while this process or the ledger stood still: what is
// promised is bound to times, which no machine keeps that gives them nothing for so long. A try
// without that counts.
func retryIfStalled(t *testing.T, test func(*attempt)) {
	t.Helper()
	const (
		tries      = 20
		checkEvery = 5 * time.Millisecond
		minStall   = 50 * time.Millisecond // the least that a test bears
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
				"try %d, in which nothing stood still for more than %s",
				n,
				longestStall,
			)
		}
		t.Logf("once more, for something stood still for %s: %s", longestStall, failures[0])
	}
}
