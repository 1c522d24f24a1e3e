package scenario

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/browser"
	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

var updatePictures = flag.Bool("update", false, "write the pictures of the page into docs/images")

const (
	// attack is markup in every place where a name, a label or an answer can hold it.
	attack    = `<script>window.attacked=1</script><img src=x onerror=window.attacked=1>"'&amp;`
	pictures  = "../../docs/images"
	maxWeight = 300_000 // bytes that a page may transfer
	maxImage  = 150_000
)

// viewer is a person with a browser, signed in with a key.
type viewer struct {
	*browser.Tab
	env *environment
}

// newViewer signs in.
func newViewer(t *testing.T, env *environment, b *browser.Browser, key string) viewer {
	t.Helper()
	v := viewer{b.Open(t, env.API()), env}
	v.Go(t, v.app("timers"))
	require.Contains(t, v.Path(t), "/ui/sign-in?next=")
	v.check(t)
	v.Fill(t, "input[name=key]", key)
	v.Follow(t, "main button")
	require.Equal(t, v.app("timers"), v.Path(t))
	return v
}

// app returns the path of a page of the scenario's app.
func (v viewer) app(parts ...string) string {
	path := "/ui/apps/" + url.PathEscape(v.env.app)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// check checks the page that is shown: in both themes, on a wide and a narrow view, for people who
// see it and who do not. The looks of a page do not depend on the way of running, so they are
// checked in one process alone: that takes a browser on a small machine most of its time.
func (v viewer) check(t *testing.T) {
	t.Helper()
	at := v.Path(t)
	require.Less(t, v.Received(), maxWeight, at)
	if v.env.Name() == "allinone" {
		v.Dark(t, true)
		require.Empty(t, v.Violations(t, browser.Contrast), "%s, dark", at)
		v.Dark(t, false)
		require.Empty(t, v.Violations(t), "%s, light", at)
		v.Size(t, 360, 740)
		require.Empty(t, v.Violations(t), "%s, narrow", at)
		require.True(
			t,
			v.Is(t, "document.documentElement.scrollWidth <= innerWidth"),
			"%s, narrow",
			at,
		)
		v.Size(t, 1280, 900)
	}
	require.False(t, v.Is(t, "window.attacked"), at)
	require.Empty(t, v.Complaints(), at)
}

// visit opens a page and checks it.
func (v viewer) visit(t *testing.T, path string) {
	t.Helper()
	v.Go(t, path)
	require.NotEmpty(t, v.Text(t, "h1"), path)
	// A figure for people: tests judge no timing.
	t.Logf("first paint of %s: %s", path, v.FirstPaint(t).Round(time.Millisecond))
	v.check(t)
}

// picture keeps what the page shows for the documents, where the flag asks for that.
func (v viewer) picture(t *testing.T, name string) {
	t.Helper()
	if !*updatePictures || v.env.Name() != "allinone" {
		return
	}
	v.Size(t, 1280, 1200)
	png := v.Screenshot(t)
	v.Size(t, 1280, 900)
	require.Less(t, len(png), maxImage, name)
	require.NoError(t, os.MkdirAll(pictures, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o600))
}

// TestPageShowsMarkupAsText checks every page of an app whose names, labels, reasons and answers
// are markup.
func TestPageShowsMarkupAsText(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		b := browser.Start(t)
		env.rcv.Script("/attack", receiver.Script{Statuses: []int{400}, Body: attack})
		at := soon(5 * time.Second)
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App: env.app, Name: attack, Status: "active", Schedule: client.At(at),
			Target: client.Post(env.rcv.URL("/attack")), Retry: &client.Retry{Attempts: 1},
			Labels: client.Labels{"team": attack},
		})
		require.NoError(t, err)
		fire := timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
		require.Eventually(t, func() bool {
			f, err := env.api.Fire(t.Context(), env.app, fire)
			return err == nil && f.Status == "failed"
		}, patience, 50*time.Millisecond)

		v := newViewer(t, env, b, client.AdminKey)
		id := tm.TimerID().String()
		v.visit(t, "/ui/")
		v.visit(t, v.app("timers")+"?labels="+url.QueryEscape("team="+strconv.Quote(attack)))
		require.Equal(t, attack, v.Text(t, "tbody th a"))
		v.visit(t, v.app("timers")+"?labels="+url.QueryEscape("(("+attack))
		v.visit(t, v.app("overview"))
		require.Equal(t, attack, v.Text(t, "#failures ~ div tbody td a"))
		v.visit(t, v.app("fires")+"?state=failed")
		require.Equal(t, attack, v.Text(t, "tbody td a"))
		v.visit(t, v.app("dead-letters"))
		v.visit(t, v.app("app"))
		v.visit(t, v.app("calendars"))
		v.visit(t, "/ui/operations")
		v.visit(t, v.app("timers", id))
		require.Contains(t, v.Text(t, "h1"), attack)
		v.visit(t, v.app("timers", "new"))
		v.visit(t, v.app("timers", "new")+"?from="+id)
		v.visit(t, v.app("timers", id, "edit"))
		v.Click(t, "button[value=test]")
		v.Await(t, "document.querySelector('#test-call .badge.failed')")
		require.Contains(t, v.Text(t, "#test-call pre"), attack)
		v.check(t)
		require.True(
			t,
			v.Is(t, fmt.Sprintf(`document.querySelector("[name=name]").value == %q`, attack)),
		)
		v.visit(t, v.app("timers", id)+"?at="+url.QueryEscape(attack))
		v.visit(t, v.app("fires", fire.String()))
		require.Contains(t, v.Text(t, "pre"), attack)
		v.Go(t, v.app("timers", attack))
		require.NotEmpty(t, v.Complaints(), "the status 404")
		v.check(t)
	})
}

// TestPageActs does what a person does with the page while fires are called: search, pause, resume,
// run, redrive, and change many timers after a dry run.
func TestPageActs(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		b := browser.Start(t)
		if *updatePictures {
			env.app = "shop"
		}
		ids := env.shopTimers(t)
		v := newViewer(t, env, b, client.AdminKey)
		v.watches(t)
		v.searches(t)
		v.changes(t, ids["send invoices"])
		v.redrives(t, ids["sync stock"])
		v.edits(t, ids["nightly report"])
		v.changesMany(t)
		v.losesTheSession(t)
	})
}

// shopTimers creates the timers of a shop. They have fires soon.
func (env *environment) shopTimers(t *testing.T) map[string]timer.ID {
	t.Helper()
	env.rcv.Script("/stock", receiver.Script{Statuses: []int{503}, Body: "the warehouse is closed"})
	ids := make(map[string]timer.ID)
	for _, s := range []struct{ name, path, team, spec string }{
		{"send invoices", "/invoices", "pay", "*/2 * * * * *"},
		{"sync stock", "/stock", "warehouse", "*/3 * * * * *"},
		{"nightly report", "/reports", "data", "30 2 * * *"},
		{"close carts", "/carts", "web", "*/5 * * * *"},
		{"remind customers", "/reminders", "pay", "0 9 * * MON-FRI"},
	} {
		schedule := client.Cron(s.spec)
		schedule.TimeZone = "Europe/Berlin"
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App: env.app, Name: s.name, Status: "active", Schedule: schedule,
			Target: client.Post(env.rcv.URL(s.path)), Labels: client.Labels{"team": s.team},
			Retry: &client.Retry{Attempts: 2, Wait: "100ms"},
		})
		require.NoError(t, err)
		ids[s.name] = tm.TimerID()
	}
	require.Eventually(t, func() bool {
		failed, err := env.api.DeadLetters(t.Context(), env.app)
		return err == nil && len(failed) > 0
	}, patience, 100*time.Millisecond)
	return ids
}

// watches sees the overview change while fires are called.
func (v viewer) watches(t *testing.T) {
	t.Helper()
	v.visit(t, v.app("overview"))
	require.True(t, v.Is(t, `document.querySelectorAll(".chart canvas").length == 3`))
	if *updatePictures {
		pause(t, 45*time.Second) // so that there is something to see
	}
	delivered := v.Text(t, ".numbers .delivered strong")
	v.Await(t, fmt.Sprintf(`document.querySelector(".numbers .delivered strong").innerText != %q`,
		delivered)) // without a reload
	v.picture(t, "overview")
	require.Empty(t, v.Complaints())
}

// searches finds timers by keyboard.
func (v viewer) searches(t *testing.T) {
	t.Helper()
	v.Go(t, v.app("timers"))
	v.picture(t, "timers")
	v.Type(t, "?")
	v.Await(t, `document.querySelector("#help").open`)
	v.check(t)
	v.Type(t, kb.Escape)
	v.Await(t, `!document.querySelector("#help").open`)
	v.Type(t, "/")
	v.Await(t, `document.activeElement.name == "name_contains"`)
	v.Fill(t, "input[name=name_contains]", "stock") // the protocol also types the slash
	v.Type(t, kb.Enter)
	v.Await(t, `document.querySelectorAll("tbody tr").length == 1`)
	require.Contains(t, v.Path(t), "name_contains=stock")
	require.Equal(t, "sync stock", v.Text(t, "tbody th a"))
	v.Type(t, "gt")
	v.Await(t, `document.querySelectorAll("tbody tr").length == 5`)
	v.Type(t, "n")
	v.Await(t, `document.querySelector("#editor")`)
	v.Type(t, "gt")
	v.Await(t, `document.querySelectorAll("tbody tr").length == 5`)
	v.Follow(t, "button[name=language]")
	require.True(t, v.Is(t, `document.documentElement.lang == "zh"`))
	v.check(t)
	v.Follow(t, "button[name=language]")
	v.Follow(t, "button[name=theme]")
	require.True(t, v.Is(t, `document.documentElement.dataset.theme == "dark"`))
	v.Follow(t, "button[name=theme]")
	v.Follow(t, "button[name=theme]")
	require.True(t, v.Is(t, `document.documentElement.dataset.theme == "auto"`))
}

// changes pauses a timer, resumes it and runs it now.
func (v viewer) changes(t *testing.T, id timer.ID) {
	t.Helper()
	path := v.app("timers", id.String())
	v.visit(t, path)
	v.picture(t, "timer")
	v.Fill(t, `form[action$="/pause"] input`, "the warehouse moves")
	v.Follow(t, `form[action$="/pause"] button`)
	require.Contains(t, v.Text(t, "main"), "the warehouse moves")
	tm, err := v.env.api.Get(t.Context(), v.env.app, id)
	require.NoError(t, err)
	require.Equal(t, "paused", tm.Status)
	v.check(t)
	v.Follow(t, `form[action$="/resume"] button`)
	tm, err = v.env.api.Get(t.Context(), v.env.app, id)
	require.NoError(t, err)
	require.Equal(t, "active", tm.Status)
	v.Follow(t, `form[action$="/run"] button`)
	v.Await(t, `document.querySelector("h1 .badge.delivered")`) // without a reload
	v.check(t)
}

// redrives calls a failed fire again.
func (v viewer) redrives(t *testing.T, id timer.ID) {
	t.Helper()
	v.Go(t, v.app("timers", id.String()))
	v.Await(t, `document.querySelector("tbody .badge.failed")`)
	v.Follow(t, "tr:has(.badge.failed) th a")
	require.Contains(t, v.Text(t, "pre"), "the warehouse is closed")
	v.check(t)
	v.picture(t, "fire")
	v.Follow(t, `form[action$="/redrive"] button`)
	v.check(t)
	v.Follow(t, `a[href*="/fires/"]`)
	v.Await(t, `document.querySelector("h1 .badge.failed")`)
	require.Contains(t, v.Text(t, "main"), "redrive")
}

// edits changes a timer on both sides of the editor, while somebody else changes it too.
func (v viewer) edits(t *testing.T, id timer.ID) {
	t.Helper()
	v.Go(t, v.app("timers", id.String()))
	v.Follow(t, `a[href$="/edit"]`)
	v.check(t)
	v.Fill(t, "textarea[name=specs]", "0 7 * * SUN")
	v.Await(t, `document.querySelector("textarea[name=yaml]").value.includes("0 7 * * SUN")`)
	v.Await(t, `document.querySelector("#preview").innerText.includes("on Sunday at 07:00")`)
	v.picture(t, "editor")
	v.Fill(t, "input[name=timeout]", "soon")
	v.Await(t, `document.querySelector("input[name=timeout]").ariaInvalid == "true"`)
	v.check(t)
	v.Fill(t, "input[name=timeout]", "7s")
	v.Await(t, `document.querySelector("#error-timeout").innerText == ""`)
	v.Replace(t, "textarea[name=yaml]", "priority: normal", "priority: high")
	v.Await(t, `document.querySelector("select[name=priority]").value == "high"`)
	_, err := v.env.api.Edit(t.Context(), v.env.app, id,
		client.Change{Labels: &client.Labels{"by": "another"}})
	require.NoError(t, err)
	v.Follow(t, `button[value=save]`)
	require.NotEmpty(t, v.Complaints(), "the status 412")
	require.Contains(t, v.Text(t, "main"), "Saving again replaces version 2.")
	v.check(t)
	v.Follow(t, `button[value=save]`)
	require.Contains(t, v.Text(t, "main"), "on Sunday at 07:00")
	tm, err := v.env.api.Get(t.Context(), v.env.app, id)
	require.NoError(t, err)
	require.EqualValues(t, 3, tm.Version)
	require.Equal(t, "high", tm.Priority)
}

// changesMany pauses all timers that a search selects, after a dry run.
func (v viewer) changesMany(t *testing.T) {
	t.Helper()
	v.Go(t, v.app("timers")+"?labels=team%3Dpay")
	v.Choose(t, "select[name=action]", "pause")
	v.Follow(t, `form[action$="/jobs"] button`)
	require.Contains(t, v.Text(t, "main"), "2 timers would change.")
	v.check(t)
	v.Follow(t, `form[action$="/jobs"] button`)
	v.Await(t, `document.querySelector(".badge.done")`)
	v.check(t)
	list, _, err := v.env.api.List(t.Context(), v.env.app, "", 10, "")
	require.NoError(t, err)
	paused := 0
	for i := range list {
		if list[i].Status == "paused" {
			paused++
		}
	}
	require.Equal(t, 2, paused)
}

// losesTheSession has a page that refreshes itself go to sign in, and then back.
func (v viewer) losesTheSession(t *testing.T) {
	t.Helper()
	v.Go(t, v.app("overview"))
	v.DropCookies(t)
	v.Await(t, `document.querySelector("input[name=key]") && !document.querySelector("#now")`)
	require.Contains(t, v.Path(t), "/ui/sign-in?next=")
	v.Fill(t, "input[name=key]", client.AdminKey)
	v.Follow(t, "main button")
	require.Equal(t, v.app("overview"), v.Path(t))
}
