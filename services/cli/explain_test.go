package cli_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
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

// TestExplainFindsTheLastFire checks that a timer which has ended is explained by its last fire, and
// that its instant may be given without milliseconds.
func TestExplainFindsTheLastFire(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "once", "--delay", "10ms", "--url", "http://127.0.0.1:1/",
		"--attempts", "1")
	var due string
	require.Eventually(t, func() bool {
		due = strings.TrimSpace(
			u.do("timer", "fires", "once", "-o", "jsonpath=.items[*].due"))
		return due != ""
	}, 20*time.Second, 100*time.Millisecond)
	at, err := time.Parse(time.RFC3339, due)
	require.NoError(t, err)
	second := at.Truncate(time.Second).Format(time.RFC3339)
	for _, args := range [][]string{{"once"}, {"once", due}, {"once", second}} {
		said := u.do(append([]string{"explain"}, args...)...)
		require.Contains(t, said, "carillon fire get ", args)
		require.NotContains(t, said, "not_in_schedule", args)
	}
	said := u.do("explain", "once", at.Truncate(time.Second).Add(-time.Minute).Format(time.RFC3339))
	require.Contains(t, said, "not_in_schedule")
}
