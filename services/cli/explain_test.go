package cli_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestExplainTellsOfOpenFires checks that a question about the present tells of the open fires that
// came due, and one about a range of those that it does not list.
func TestExplainTellsOfOpenFires(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	s := httptest.NewServer(e.Api.Handler())
	defer s.Close()
	u := newUser(t, s.URL)
	u.do("timer", "create", "bill", "--cron", "0 0 1 * *", "--url", "https://example.com/hook")
	require.NotContains(t, u.do("explain", "bill"), "is open")
	u.do("timer", "run", "bill")
	runs := e.Dispatched.All()
	run := runs[len(runs)-1]
	require.Equal(t, timer.CauseRunNow, run.Cause)
	e.Accept(t, e.Claimed(t, []timer.Fire{run})[0])
	want := "Now: The fire " + run.FireID.String() + ", due at "
	for _, args := range [][]string{{}, {"--from", "0s", "--to", "800h"}} {
		said := u.do(append([]string{"explain", "bill"}, args...)...)
		require.Contains(t, said, want)
		require.Contains(t, said, "is open (waits_for_completion): Requested by a run_now at ")
		require.Contains(t, said, "The receiver has accepted the fire and has until ")
	}

	u.do(
		"timer",
		"create",
		"once",
		"--at",
		"2020-01-01T00:00:00Z",
		"--url",
		"https://example.com/hook",
	)
	runs = e.Dispatched.All()
	once := e.Claimed(t, runs[len(runs)-1:])[0] // it had passed, so it is due at once
	own := "Now: The fire " + once.FireID.String() + ", due at "
	require.Contains(t, u.do("explain", "once"), own)
	from := time.UnixMilli(once.DueMS).UTC().Format(time.RFC3339Nano)
	list := u.do("explain", "once", "--from", from, "--to", "1h")
	require.Contains(t, list, "in_progress")
	require.NotContains(t, list, own, "it is listed")
}
