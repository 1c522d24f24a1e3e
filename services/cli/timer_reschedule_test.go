package cli_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestReschedule(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "once", "--delay", "1h", "--url", "https://example.com/")
	const at = "2040-01-31T09:00:00Z"
	move := func(args ...string) []string { return append([]string{"timer", "reschedule"}, args...) }
	due := func() string { return u.do("timer", "get", "once", "-o", "jsonpath=.next_due") }
	before := due()
	require.Contains(
		t, u.do(move("once", "--at", at, "--dry-run")...), "timer once would be rescheduled")
	require.Equal(t, before, due())
	require.Contains(t, u.do(move("once", "--at", at)...), "timer once rescheduled\nnext due 2040-")
	require.Contains(t, due(), "2040-")
	require.Contains(t, u.do(move("once", "--delay", "2h", "-o", "json")...), `"next_due": "20`)
	require.NotContains(t, due(), "2040-")
	u.do(move("once", "--at", "3h")...)

	require.Contains(t, u.refused(move("once", "--at", at, "--if-version", "1")...), "409")
	require.Contains(t, u.refused(move("once")...), "give one of --at and --delay")
	require.Contains(
		t, u.refused(move("once", "--at", at, "--delay", "1h")...), "give one of --at and --delay")
	require.Contains(t, u.refused(move("once", "--at", "soon")...), "--at: expected ")
	u.do("timer", "create", "later", "--at", "3h", "--url", "https://example.com/")
	shown := u.do("timer", "list", "--contains", "later")
	at3 := regexp.MustCompile(`\bat (\d.*? [A-Z]+)\b`).FindStringSubmatch(shown)
	require.NotNil(t, at3, shown)
	require.Contains(t, u.do(move("later", "--at", at3[1])...), "next due "+at3[1])
	require.Contains(t, u.refused(move("nobody", "--at", at)...), `no timer "nobody"`)
	u.do("timer", "create", "tick", "--every", "1h", "--url", "https://example.com/")
	require.Contains(t, u.refused(move("tick", "--at", at)...), "recurs: edit its schedule")
}
