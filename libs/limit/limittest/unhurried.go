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

// try is one go at a test. What it finds is not yet the test's.
type try struct {
	*testing.T

	mu    sync.Mutex
	found []string
	still time.Duration // the longest time in which this process, or the ledger, did nothing
}

func (t *try) took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.still = max(t.still, d)
}

func (t *try) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = append(t.found, fmt.Sprintf(format, args...))
}

func (t *try) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

// FailNow ends the try, from the goroutine that it runs in.
func (t *try) FailNow() {
	t.Errorf("the try ends here")
	runtime.Goexit()
}

// unhurried runs a test again that failed while this process or the ledger stood still: what is
// promised is bound to times, which no machine keeps that gives them nothing for so long. A try
// without that counts.
func unhurried(t *testing.T, test func(*try)) {
	t.Helper()
	const (
		tries = 20
		look  = 5 * time.Millisecond
		stood = 50 * time.Millisecond // the least that a test bears
	)
	for n := 1; ; n++ {
		g := &try{T: t}
		over := make(chan struct{})
		go func() {
			defer close(over)
			test(g)
		}()
		for last, ends := time.Now(), false; !ends; {
			select {
			case <-over:
				ends = true
			case <-time.After(look):
			}
			g.took(time.Since(last))
			last = time.Now()
		}
		g.mu.Lock()
		found, still := slices.Clone(g.found), g.still
		g.mu.Unlock()
		switch {
		case len(found) == 0:
			return
		case still < stood || n == tries:
			require.Fail(
				t,
				strings.Join(found, "\n"),
				"try %d, in which nothing stood still for more than %s",
				n,
				still,
			)
		}
		t.Logf("once more, for something stood still for %s: %s", still, found[0])
	}
}
