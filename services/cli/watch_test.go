package cli_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// record records fires that the executor holds as delivered.
func record(t *testing.T, e *apitest.Executor, fires []timer.Fire) {
	t.Helper()
	var outcomes []timer.Outcome
	for _, f := range fires {
		outcomes = append(outcomes, timer.Outcome{
			Fire: f, Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(),
			UntilMS: f.DueMS, Count: 1, Attempts: 1,
		})
	}
	lost, _, err := e.Store.Record(t.Context(), e.Session, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
}

// TestWatchPrintsFiresThatFinishLate checks that a watch prints a fire which finishes after many that
// were due later, and fires of no other timer.
func TestWatchPrintsFiresThatFinishLate(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	s := httptest.NewServer(e.Api.Handler())
	defer s.Close()
	fires := e.Held(t, "shop", "bill", 152)
	others := e.Held(t, "shop", "other", 1)
	record(t, e, fires[2:])

	u := newUser(t, s.URL)
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of a watch that never ends
	defer cancel()
	out := &onWrite{}
	out.call = sync.OnceFunc(func() { // it is told that the watch begins
		record(t, e, others)
		record(t, e, fires[:2])
	})
	require.NoError(
		t,
		cli.Run(ctx, []string{"timer", "watch", "bill", "--count", "2"}, env, out, io.Discard),
	)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3, out.String())
	require.Contains(t, lines[0], "watching bill; next due ")
	require.ElementsMatch(t,
		[]string{fires[0].FireID.String(), fires[1].FireID.String()},
		[]string{lastField(lines[1]), lastField(lines[2])},
	)
}

func lastField(line string) string { return line[strings.LastIndexByte(line, ' ')+1:] }
