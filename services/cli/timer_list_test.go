package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestEmptyListsNameUnknownApps checks that a misspelt app does not look like one that is empty.
func TestEmptyListsNameUnknownApps(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill", "--every", "3h", "--url", d.Api+"/dev/echo")
	const hint = `there is no app "shpo" yet: carillon app list shows`
	for _, args := range [][]string{
		{"timer", "list"},
		{"timer", "list", "--count"},
		{"timer", "list", "-o", "json"},
		{"calendar", "list"},
		{"dead", "list"},
		{"fires"},
		{"job", "list"},
		{"stats"},
		{"upcoming"},
		{"upcoming", "-o", "json"},
	} {
		require.NotContains(t, u.do(args...), "there is no app")
		out, errOut, err := u.split(append(args, "--app", "shpo")...)
		require.NoError(t, err)
		require.Contains(t, errOut, hint, args)
		require.NotContains(t, out, hint, args)
	}
	require.NotContains(t, u.do("timer", "list", "--contains", "none"), "there is no app")

	out, _, err := u.split("export", "--app", "shpo")
	require.ErrorContains(t, err, hint, "no script keeps an empty file")
	require.Empty(t, out)
	for _, args := range [][]string{
		{"dead", "redrive"},
		{"app", "get"},
		{"app", "settings"},
		{"app", "limit", "--rate", "10"},
		{"app", "allow", "example.com:443"},
		{"timer", "pause", "--all", "--yes"},
	} {
		said := u.refused(append(args, "--app", "shpo")...)
		require.Contains(t, said, `no app "shpo"`, args)
		require.Contains(t, said, "carillon app list shows the apps that there are", args)
	}
	said := u.refused("app", "delete", "shpo", "--confirm", "shpo")
	require.Contains(t, said, "carillon app list shows the apps that there are")
	// An id goes before a name that is this id.
	id := strings.TrimSpace(u.do("timer", "get", "bill", "-o", "jsonpath=.id"))
	u.do("timer", "create", id, "--every", "3h", "--url", d.Api+"/dev/echo")
	require.Equal(t, "bill", strings.TrimSpace(u.do("timer", "get", id, "-o", "jsonpath=.name")))
	u.do("timer", "delete", id, "--yes")
	require.Equal(t, id, strings.TrimSpace(u.do("timer", "get", id, "-o", "jsonpath=.name")))

	u.do("timer", "delete", id, "--yes")
	out, errOut, err := u.split("export")
	require.NoError(t, err)
	require.Empty(t, out)
	require.Contains(t, errOut, `app "shop" has no calendars and no timers`)
}

func TestTimerListCommand(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer endpoint.Close()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CALLBACK_ALLOW", "127.0.0.1:*")
	defer d.Stop(t)
	u := newUser(t, d.Api)
	create := func(name, every string, labels ...string) {
		args := []string{"timer", "create", name, "--every", every, "--url", endpoint.URL}
		for _, l := range labels {
			args = append(args, "--label", l)
		}
		u.do(args...)
	}
	create("bill-eu", "3h", "team=pay", "env=prod")
	create("bill-us", "1h", "team=pay", "env=dev")
	create("ship", "2h", "team=log")
	u.do("timer", "pause", "ship")
	list := func(args ...string) string {
		out := u.do(append([]string{"timer", "list", "-o", "name"}, args...)...)
		return strings.Join(strings.Fields(out), " ")
	}
	for want, args := range map[string][]string{
		"bill-eu bill-us ship": {"--all"},
		"ship bill-us bill-eu": {"--sort", "name", "--desc"},
		"bill-us bill-eu ship": {"--sort", "next_due"},
		"bill-us bill-eu":      {"--sort", "next_due", "--limit", "2"},
		"bill-eu":              {"-l", "team=pay,env!=dev"},
		"ship":                 {"--status", "paused"},
		"bill-us":              {"--due-before", "90m"},
		"":                     {"--name-prefix", "ill"},
		"bill-us ship":         {"--contains", "s", "-l", "env!=prod"},
	} {
		require.Equal(t, want, list(args...), args)
	}
	require.Equal(t, "bill-eu", list("--due-after", "2h", "--target-host", "127.0.0.1"))
	require.Equal(t, "2\n", u.do("timer", "list", "-l", "team=pay", "--count"))
	require.JSONEq(
		t, `{"total":1,"total_is_minimum":false}`,
		u.do("timer", "list", "--status", "paused", "--count", "-o", "json"),
	)
	u.do("timer", "run", "bill-eu")
	require.Eventually(t, func() bool {
		return list("--last-outcome", "delivered") == "bill-eu"
	}, 20*time.Second, 100*time.Millisecond)
	wide := u.do("timer", "list", "--sort", "last_fired", "--limit", "1", "-o", "wide")
	require.Regexp(t, `bill-eu .*delivered .*env=prod,team=pay`, wide)
	require.Contains(t, u.refused("timer", "list", "-l", "team=pay,"), "labels")
	require.Contains(t, u.refused("timer", "list", "--due-before", "soon"), "--due-before")
	require.Contains(t, u.refused("timer", "list", "--all", "--limit", "3"), "exclude")

	require.Regexp(t, `shop +false`, u.do("app", "list"))
	require.Contains(t, u.do("app", "list", "-o", "name"), "shop\n")
}

// TestEmptyFlagsAreRefused checks that an empty variable of a script selects neither all, nor another
// app, deployment or key.
func TestEmptyFlagsAreRefused(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1") // nothing is asked
	for _, args := range [][]string{
		{"timer", "list", "--labels", ""},
		{"timer", "list", "--due-before", ""},
		{"timer", "list", "--sort", ""},
		{"timer", "pause", "--labels", "", "--name-prefix", "a", "--yes"},
		{"timer", "pause", "--labels", ""},
		{"timer", "pause", "x", "--until", ""},
		{"timer", "delete", "--all", "--app", "", "--yes"},
		{"timer", "delete", "--all", "--app=", "--yes"},
		{"timer", "create", "x", "--cron", "@daily", "--url", "http://x", "--label", ""},
		{"fires", "--selector", ""},
		{"fires", "--state", ""},
		{"events", "--timer", ""},
		{"stats", "--from", ""},
		{"audit", "--actor", ""},
		{"dead", "list", "--timer", ""},
		{"redrive", "--timer", "", "--yes"},
		{"dead", "redrive", "--failure", "", "--yes"},
		{"apply", "--file", "a.yaml", "--file", "", "--prune"},
		{"preview", "@daily", "--tz", ""},
		{"context", "set", "x", "--api", ""},
		{"version", "--context", ""},
	} {
		said := u.refused(args...)
		require.Contains(t, said, ": expected a value, found none: leave the flag out", args)
	}
}

// TestEveryTextFlagRefusesTheEmptyText checks the rule for the flags of all commands that are read
// here.
func TestEveryTextFlagRefusesTheEmptyText(t *testing.T) {
	t.Parallel()
	count := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		each := func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "string", "stringSlice", "stringArray":
				require.ErrorContains(t, f.Value.Set(""), "found none", "%s --%s", c, f.Name)
				count++
			}
		}
		c.Flags().VisitAll(each)
		c.PersistentFlags().VisitAll(each)
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(cli.Root(devtest.NoEnv, strings.NewReader(""), io.Discard, io.Discard))
	require.Greater(t, count, 100)
}
