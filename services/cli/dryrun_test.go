package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestDryRunCommands runs the commands that write with --dry-run. Afterwards all is as before.
func TestDryRunCommands(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill", "--cron", "@yearly", "--url", "https://example.com/")
	u.do("apply", "-f", u.file("days.yaml", "kind: calendar\nname: days\n"))
	state := func() string {
		return u.do("timer", "get", "bill", "-o", "json") + u.do("app", "get", "-o", "json") +
			u.do("app", "settings", "-o", "json") + u.do("key", "list") + u.do("job", "list") +
			u.do("calendar", "list", "-o", "wide") + u.do("timer", "fires", "bill")
	}
	before := state()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"would be paused", []string{"timer", "pause", "bill", "--reason", "moves"}},
		{"was not paused", []string{"timer", "resume", "bill"}},
		{"would run", []string{"timer", "run", "bill"}},
		{"would be labelled", []string{"timer", "label", "bill", "a=b"}},
		{"would be changed", []string{"timer", "edit", "bill", "--metrics"}},
		{"would be deleted", []string{"timer", "delete", "bill"}},
		{"would be created", []string{
			"timer", "create", "new", "--every", "1h", "--url", "https://example.com/", "--metrics",
		}},
		{"running", []string{
			"backfill", "start", "bill", "--from", "-24h", "--wait", "-o", "json",
		}},
		{"would be deleted", []string{"calendar", "delete", "days"}},
		{"true", []string{"app", "freeze", "-o", "jsonpath=.frozen"}},
		{"false", []string{"app", "unfreeze", "-o", "jsonpath=.frozen"}},
		{"7", []string{"app", "limit", "--rate", "7", "-o", "jsonpath=.rate"}},
		{"10.0.0.1:80", []string{"app", "allow", "10.0.0.1:80", "-o", "jsonpath=.allow"}},
		{"robot", []string{"key", "create", "robot", "-o", "json"}},
		{"would change 1 timers", []string{"app", "delete", "shop", "--confirm", "shop"}},
	} {
		out := u.do(append(c.args, "--dry-run")...)
		require.Contains(t, out, c.want, c.args)
		require.NotContains(t, out, "crl_")
		require.Equal(t, before, state(), c.args)
	}
	require.Contains(t, u.refused("timer", "delete", "nobody", "--dry-run"), "nobody")
	require.Contains(t, u.refused("key", "revoke", "nobody", "--dry-run"), "404")

	u.do("timer", "edit", "bill", "--metrics")
	require.Contains(t, u.do("timer", "get", "bill", "-o", "yaml"), "metrics: true")
	require.Contains(t, u.do("export"), "metrics: true")
	u.do("timer", "edit", "bill", "--metrics=false")
	require.Contains(t, u.do("timer", "get", "bill", "-o", "yaml"), "metrics: false")
}
