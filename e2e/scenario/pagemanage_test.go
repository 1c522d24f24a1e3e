package scenario

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/browser"
	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestPageManages manages an app and looks at the deployment, with markup in every text that a
// person can enter.
func TestPageManages(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		b := browser.Start(t)
		env.rcv.Script("/broken", receiver.Script{Statuses: []int{503}})
		_, _, err := env.api.Create(t.Context(), client.NewTimer{
			App: env.app, Name: attack, Status: "active", Schedule: client.Cron("* * * * * *"),
			Target: client.Post(env.rcv.URL("/broken")), Retry: &client.Retry{Attempts: 1},
		})
		require.NoError(t, err)
		v := newViewer(t, env, b, client.AdminKey)
		v.calendars(t)
		v.keys(t)
		v.limits(t)
		v.redrivesAll(t)
		v.Type(t, "gu")
		v.Await(t, `location.pathname.endsWith("/audit") && document.querySelector("tbody tr")`)
		v.check(t)
		require.Contains(t, v.Text(t, "tbody"), attack)
		v.Click(t, "tbody summary")
		v.check(t)
		v.Type(t, "gp")
		v.Await(t, `location.pathname == "/ui/operations" && document.querySelector("#sessions")`)
		v.check(t)
		require.Contains(t, v.Text(t, "#sessions ~ div"), "executor")
		require.Contains(t, v.Text(t, "#settings ~ details summary"), "Settings")
		v.Click(t, "#settings ~ details summary")
		v.check(t)
		v.visit(t, "/ui/operations/audit")
	})
}

// calendars makes a calendar, looks at a year of it, and deletes it.
func (v viewer) calendars(t *testing.T) {
	t.Helper()
	v.visit(t, v.app("calendars"))
	v.Fill(t, "input[name=name]", attack)
	v.Follow(t, `form[action$="/calendar"] button`)
	v.check(t)
	v.Fill(t, "textarea[name=excluded_dates]", "2030-12-25")
	v.Click(t, "input[value=sun]")
	v.Follow(t, "#edit ~ form button")
	require.Contains(t, v.Text(t, "h1"), attack)
	v.visit(t, v.app("calendars", attack)+"?year=2030")
	require.True(t, v.Is(t, `document.querySelectorAll(".month").length == 12`))
	require.True(t, v.Is(t, `document.querySelectorAll("td.day-excluded").length == 1`))
	require.True(t, v.Is(t, `document.querySelectorAll("td.day-weekday").length == 52`))
	v.visit(t, v.app("calendars"))
	require.Equal(t, attack, v.Text(t, "tbody th a"))
	v.Go(t, v.app("calendars", attack))
	v.Click(t, "#delete ~ details summary")
	v.Follow(t, `form[action$="/delete"] button`)
	v.check(t)
}

// keys makes a key of each kind. It revokes and retires both.
func (v viewer) keys(t *testing.T) {
	t.Helper()
	v.visit(t, v.app("app"))
	v.Fill(t, `form[action$="/app/keys"] input[name=name]`, attack)
	v.Follow(t, `form[action$="/app/keys"] button`)
	v.check(t)
	key := v.Text(t, "dd code")
	require.Contains(t, key, "crl_")
	v.Go(t, v.app("app"))
	v.Follow(t, `form[action$="/app/signing-keys"] button`)
	v.check(t)
	require.Contains(t, v.Text(t, "dd code"), "whsec_")
	v.visit(t, v.app("app"))
	require.NotContains(t, v.Text(t, "main"), key)
	v.Click(t, "#keys ~ div summary")
	v.check(t)
	v.Follow(t, `form[action$="/revoke"] button`)
	v.Click(t, "#signing-keys ~ div summary")
	v.Follow(t, `form[action$="/retire"] button`)
	require.True(t, v.Is(t, `!document.querySelector("form[action$='/retire']")`))
}

// limits sets limits, of which another viewer knows an older version, and freezes the app.
func (v viewer) limits(t *testing.T) {
	t.Helper()
	set := `form[action$="/app/settings"] button`
	v.Go(t, v.app("app"))
	v.Fill(t, "input[name=rate]", "many")
	v.Follow(t, set)
	require.NotEmpty(t, v.Complaints(), "the status 422")
	require.Contains(t, v.Text(t, "[role=alert]"), "number")
	v.check(t)
	v.Fill(t, "input[name=rate]", "1000")
	v.Follow(t, set)
	require.True(t, v.Is(t, `document.querySelector("input[name=rate]").value == "1000"`))
	v.Click(t, "#state ~ details summary")
	v.Fill(t, "input[name=reason]", attack)
	v.Follow(t, `form[action$="/freeze"] button`)
	require.Contains(t, v.Text(t, "main"), attack)
	v.check(t)
	v.visit(t, "/ui/")
	v.visit(t, v.app("overview"))
	require.Contains(t, v.Text(t, "main"), attack)
	v.Go(t, v.app("app"))
	v.Follow(t, `form[action$="/unfreeze"] button`)
	a, err := v.env.api.GetApp(t.Context(), v.env.app)
	require.NoError(t, err)
	require.False(t, a.Frozen)
}

// redrivesAll calls all failed fires again that a search selects, after a dry run.
func (v viewer) redrivesAll(t *testing.T) {
	t.Helper()
	var failed []client.DeadLetter
	require.Eventually(t, func() bool {
		var err error
		failed, err = v.env.api.DeadLetters(t.Context(), v.env.app)
		return err == nil && len(failed) > 0
	}, patience, 100*time.Millisecond)
	before := url.QueryEscape(time.Now().UTC().Format(time.RFC3339))
	v.visit(t, v.app("dead-letters")+"?failure=status&to="+before)
	require.Equal(t, attack, v.Text(t, "tbody td:nth-of-type(2) a"))
	v.Follow(t, "#all ~ form button")
	require.Contains(t, v.Text(t, "main"), "would be called again")
	v.check(t)
	v.Follow(t, "main form button")
	require.Contains(t, v.Text(t, "main"), "are called again")
	v.check(t)
	redriven := 0
	for i := range failed {
		id, err := timer.ParseFireID(failed[i].ID)
		require.NoError(t, err)
		old, err := v.env.api.Fire(t.Context(), v.env.app, id)
		require.NoError(t, err)
		if old.RedrivenAs == "" {
			continue // the search does not select it
		}
		again, err := timer.ParseFireID(old.RedrivenAs)
		require.NoError(t, err)
		v.env.waitFor(t, again, func(f *client.Fire) bool { return f.Status != "open" })
		redriven++
	}
	require.Positive(t, redriven)
}
