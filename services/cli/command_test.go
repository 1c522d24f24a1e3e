package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// user runs commands as a user with an environment of their own.
type user struct {
	t   *testing.T
	env map[string]string
	in  string
}

// newUser returns a user of an API, who has no contexts yet.
func newUser(t *testing.T, api string) *user {
	t.Helper()
	return &user{t: t, env: map[string]string{
		"CARILLON_API":           api,
		"CARILLON_APP":           "shop",
		"CARILLON_CONTEXTS_FILE": filepath.Join(t.TempDir(), "contexts.yaml"),
	}}
}

// try runs a command.
func (u *user) try(args ...string) (string, error) {
	u.t.Helper()
	var out bytes.Buffer
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	root := cli.Root(env, strings.NewReader(u.in), &out, &out)
	root.SetArgs(args)
	err := root.ExecuteContext(u.t.Context())
	return out.String(), err
}

// do runs a command that must succeed.
func (u *user) do(args ...string) string {
	u.t.Helper()
	out, err := u.try(args...)
	require.NoError(u.t, err, "%s\n%s", strings.Join(args, " "), out)
	return out
}

// refused runs a command that must fail, and returns its error.
func (u *user) refused(args ...string) string {
	u.t.Helper()
	out, err := u.try(args...)
	require.Error(u.t, err, out)
	return err.Error()
}

// file writes a file and returns its path.
func (u *user) file(name, text string) string {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), name)
	require.NoError(u.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestFlagsOfTheServices checks the flags that the services have with one dash.
func TestFlagsOfTheServices(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"-help": "Usage:", "-version": "dev"} {
		var out bytes.Buffer
		require.NoError(t, cli.Run(t.Context(), []string{flag}, devtest.NoEnv, &out, &out))
		require.Contains(t, out.String(), want)
	}
}

func TestTimerCommands(t *testing.T) {
	t.Parallel()
	rings := make(chan string, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		rings <- r.Header.Get("X-Tone")
	}))
	defer endpoint.Close()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CALLBACK_ALLOW", "127.0.0.1:*")
	defer d.Stop(t)
	u := newUser(t, d.Api)

	plan := u.do("timer", "create", "bill", "--cron", "0 9 * * MON-FRI", "--tz", "Europe/Berlin",
		"--url", endpoint.URL, "--header", "X-Tone: c", "--label", "team=pay", "--dry-run")
	require.Contains(t, plan, "would be created")
	require.Equal(
		t,
		10,
		strings.Count(
			plan,
			" 09:00:00",
		)+strings.Count(
			plan,
			" 08:00:00",
		)+strings.Count(
			plan,
			" 07:00:00",
		),
		"ten instants in the zone of the terminal: %s",
		plan,
	)
	require.NotContains(t, u.do("timer", "list"), "bill")
	file := u.file("t.yaml", "name: bill\nschedule: {kind: interval, every: 1h}\n"+
		"target: {kind: http, url: \""+endpoint.URL+"\", headers: {X-Tone: [test]}}\n")
	require.Contains(t, u.do("timer", "test", "-f", file, "--dry-run"), "would be called")
	require.Contains(t, u.do("timer", "test", "-f", file), "delivered 200 in ")
	require.Equal(t, "test", <-rings)
	require.Contains(t, u.do("timer", "test", "-f", file, "-o", "json"), `"outcome": "delivered"`)
	require.Equal(t, "test", <-rings)
	require.Contains(t, u.refused("timer", "test"), "--file")
	require.Contains(
		t,
		u.do("timer", "create", "bill", "--cron", "0 9 * * MON-FRI", "--tz", "Europe/Berlin",
			"--url", endpoint.URL, "--header", "X-Tone: c", "--label", "team=pay"),
		"next due",
	)
	require.Contains(
		t,
		u.do("timer", "create", "bill", "--cron", "0 9 * * MON-FRI", "--tz", "Europe/Berlin",
			"--url", endpoint.URL, "--header", "X-Tone: c", "--label", "team=pay"),
		"timer bill is there already, with this definition",
	)
	require.Contains(
		t,
		u.refused("timer", "create", "bill", "--every", "1h", "--url", endpoint.URL),
		"a timer of this name exists",
	)
	require.Contains(
		t,
		u.refused("timer", "create", "bill", "--every", "1h", "--url", endpoint.URL),
		"\nto change it: carillon timer edit bill, or carillon apply -f FILE",
	)
	// The empty text of a variable that is not set is no name.
	for _, args := range []string{
		"timer delete", "timer pause", "timer resume", "timer run", "timer get", "explain",
		"fire get", "job get", "calendar get", "app delete --confirm=x", "dead show", "timer watch",
	} {
		require.Contains(
			t, u.refused(append(strings.Fields(args), "")...), "argument 1 is empty", args,
		)
	}

	list := u.do("timer", "list")
	require.Contains(t, list, "0 9 * * MON-FRI Europe/Berlin")
	require.NotContains(t, list, "team=pay")
	require.Contains(t, u.do("timer", "list", "-o", "wide"), "team=pay")
	require.Equal(t, "bill\n", u.do("timer", "list", "-o", "name"))
	require.Equal(t, "active\n", u.do("timer", "get", "bill", "-o", "jsonpath={.status}"))
	id := strings.TrimSpace(u.do("timer", "get", "bill", "-o", "jsonpath=.id"))
	require.Contains(t, u.do("timer", "get", id), "name: bill", "by its id too")
	var listed struct{ Items []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(u.do("timer", "list", "-o", "json")), &listed))
	require.Len(t, listed.Items, 1)

	require.Contains(
		t,
		u.do("timer", "pause", "bill", "--reason", "audit", "--until", "2h"),
		"paused",
	)
	require.Contains(t, u.do("timer", "get", "bill"), "reason: audit")
	require.Contains(t, u.do("timer", "list", "--status", "paused"), "bill")
	require.Contains(t, u.do("timer", "resume", "bill", "--dry-run"), "would be resumed")
	require.Contains(t, u.do("timer", "resume", "bill"), "resumed")
	require.Equal(
		t, "timer bill was not paused: it is active\n", u.do("timer", "resume", "bill"),
	)

	require.Contains(t, u.do("timer", "run", "bill"), "runs: fire "+id+"-")
	require.Equal(t, "c", <-rings)
	var fires string
	require.Eventually(t, func() bool {
		fires = u.do("timer", "fires", "bill")
		return strings.Contains(fires, "delivered")
	}, 20*time.Second, 100*time.Millisecond)
	fire := strings.TrimSpace(u.do("timer", "fires", "bill", "-o", "jsonpath=.items[0].id"))
	require.Contains(t, u.do("fire", "get", fire), "attempt_log")
	require.Regexp(t, `(?s)AT +HOP +WHAT\n.* claimed +Claimed by .* recorded +Delivered at`,
		u.do("fire", "get", fire))
	require.Contains(t, u.do("fire", "get", fire, "-o", "yaml"), "timeline:")
	require.Contains(
		t,
		u.do("timer", "fires", "bill", "--state", "upcoming", "--limit", "3"),
		"upcoming",
	)

	require.Contains(t, u.do("timer", "delete", "bill"), "deleted")
	require.Contains(t, u.refused("timer", "get", "bill"), `app "shop" has no timer "bill"`)
}

func TestEdit(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do(
		"timer",
		"create",
		"bill",
		"--every",
		"1h",
		"--url",
		"https://example.com/",
		"--label",
		"team=pay",
	)
	u.env["EDITOR"] = "sed -i s/1h0m0s/30m/"
	said := u.do("timer", "edit", "bill", "--dry-run")
	require.Contains(t, said, "would be changed")
	kept := func(said string) {
		_, path, _ := strings.Cut(said, "is kept: ")
		require.NoError(t, os.Remove(strings.TrimSpace(path)), said)
	}
	kept(said)
	require.Equal(t, "1\n", u.do("timer", "get", "bill", "-o", "jsonpath=.version"))
	require.Contains(t, u.do("timer", "edit", "bill"), "timer bill changed")
	require.Equal(t, "30m0s\n", u.do("timer", "get", "bill", "-o", "jsonpath=.schedule.every"))
	u.env["EDITOR"] = "true"
	require.Contains(t, u.do("timer", "edit", "bill"), "unchanged")
	for _, editor := range []string{"sed -i 1i#note", "sed -i /^status:/d"} {
		u.env["EDITOR"] = editor
		require.Contains(t, u.do("timer", "edit", "bill"), "unchanged", editor)
	}
	u.env["EDITOR"] = u.file("editor", "echo '# typed' >> $2; exit 1")
	u.env["EDITOR"] = "sh " + u.env["EDITOR"] + " x"
	kept(u.refused("timer", "edit", "bill"))
	u.env["EDITOR"] = "false"
	require.NotContains(t, u.refused("timer", "edit", "bill"), "is kept")
	u.env["EDITOR"] = "sed -i /labels:/,/team/d"
	u.do("timer", "edit", "bill")
	require.Empty(
		t,
		u.do("timer", "get", "bill", "-o", "jsonpath=.labels"),
		"a field that was removed gets its default",
	)
	for _, removed := range []string{"schedule", "target"} {
		u.env["EDITOR"] = `sed -i /^` + removed + `:/,/^[a-z]*:/{/^` + removed + `:/d;/^\s/d}`
		said = u.refused("timer", "edit", "bill")
		require.Contains(t, said, removed+" was removed")
		kept(said)
	}
	u.env["EDITOR"] = "sed -i s/30m0s/never/"
	said = u.refused("timer", "edit", "bill")
	require.Contains(t, said, "schedule.every")
	kept(said)
}

const twoTimers = `
kind: calendar
name: holidays
excluded_dates: [2026-12-25, 2027-01-01]
---
name: bill
schedule: {kind: cron, specs: ["0 9 * * *"], calendars: [holidays]}
target: {url: "https://example.com/bill"}
status: active
---
# every hour
name: tick
schedule: {kind: interval, every: 1h}
target: {url: "https://example.com/tick"}
`

func TestApplyAndExport(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	file := u.file("shop.yaml", twoTimers)

	said := u.do("apply", "-f", file, "--dry-run")
	require.Contains(
		t,
		said,
		"+  calendars:\n+  - holidays\n",
		"a calendar that does not exist yet",
	)
	require.Equal(t, 3, strings.Count(said, "would be created"))
	require.Contains(t, u.refused("export"), "there is no app", "nothing was written")
	said = u.do("apply", "-f", file, "--prune", "--yes")
	require.Equal(
		t,
		"calendar shop/holidays created\ntimer shop/bill created\ntimer shop/tick created\n"+
			"timer shop/tick: note: it is inactive, as its document has no status: "+
			"give it status: active to activate it\n",
		said,
	)
	said = u.do("apply", "-f", file)
	require.Equal(t, 3, strings.Count(said, "unchanged"), said)
	require.Equal(t, 3, strings.Count(u.do("diff", "-f", file), "unchanged"))

	changed := u.file(
		"changed.yaml",
		strings.Replace(strings.Replace(twoTimers, "0 9", "0 8", 1), "every: 1h", "every: 2h", 1),
	)
	said, err := u.try("diff", "-f", changed)
	require.ErrorContains(t, err, "differ")
	require.Contains(t, said, "-  - 0 9 * * *\n+  - 0 8 * * *\n")
	require.Contains(t, said, "timer shop/tick would be changed")
	require.Equal(t, said, u.do("apply", "-f", changed, "--dry-run"))
	require.Contains(t, u.do("timer", "get", "bill"), "0 9", "nothing was written")
	require.Equal(t, 2, strings.Count(u.do("apply", "-f", changed), " changed"))

	for _, format := range []string{"yaml", "ndjson"} {
		whole := u.do("export", fmt.Sprintf("--ndjson=%v", format == "ndjson"))
		same := u.file("export."+format, whole)
		said = u.do("apply", "-f", same)
		require.Equal(t, 3, strings.Count(said, "unchanged"), "%s\n%s", said, whole)
	}
	whole := u.do("export")
	u.do("timer", "delete", "bill", "tick")
	u.do("calendar", "delete", "holidays")
	u.in = whole
	require.Equal(t, 3, strings.Count(u.do("apply", "-f", "-"), "created"))
	require.Equal(t, whole, u.do("export"), "the same after a round trip")

	only := u.file(
		"only.yaml",
		`{"name":"tick","schedule":{"kind":"interval","every":"2h"},"target":{"url":"https://example.com/tick"}}`,
	)
	require.Contains(
		t,
		u.do("apply", "-f", only, "--prune", "--dry-run"),
		"timer shop/bill would be deleted",
	)
	require.Contains(t, u.refused("apply", "-f", only, "--prune"),
		"look at them by --dry-run, and confirm by --yes")
	require.Equal(t, "Delete 2 timers of shop, with their dead letters? Confirm it by --yes.",
		u.refused("timer", "delete", "--all"))
	require.Equal(t, "Pause 1 timers of shop? Confirm it by --yes.",
		u.refused("timer", "pause", "--all"))
	require.Contains(t, u.do("apply", "-f", only, "--prune", "--yes"), "timer shop/bill deleted")
	require.Equal(t, "tick\n", u.do("timer", "list", "-o", "name"))
	calendars := u.file("calendars.yaml", `{"kind":"calendar","name":"holidays"}`)
	require.Contains(t, u.do("apply", "-f", calendars, "--prune", "--yes"),
		"app shop: the files have no timer of it, so --prune deletes none")
	require.Equal(t, "tick\n", u.do("timer", "list", "-o", "name"))
	require.Equal(t, "shop\n", u.do("app", "get", "-o", "name"))
	require.Empty(t, u.do("stats", "-o", "name"), "it has no name")
}

// TestApplyLeavesPausesAlone checks that apply and diff say so, and that the copy of a paused timer
// is inactive.
func TestApplyLeavesPausesAlone(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	text := strings.ReplaceAll(twoTimers, "name: tick", "name: tick\nstatus: active")
	file := u.file("shop.yaml", text)
	require.NotContains(t, u.do("apply", "-f", file), "note")
	u.do("timer", "pause", "tick")
	const note = "timer shop/tick: note: it stays paused: " +
		"carillon timer resume tick --app shop ends the pause"
	for _, args := range [][]string{{"apply"}, {"diff"}, {"apply", "--dry-run"}} {
		require.Contains(t, u.do(append(args, "-f", file)...), note, args)
	}
	changed := u.file("changed.yaml", strings.Replace(text, "every: 1h", "every: 2h", 1))
	said, err := u.try("diff", "-f", changed)
	require.ErrorContains(t, err, "differ")
	require.Contains(t, said, note)
	said = u.do("apply", "-f", changed)
	require.Contains(t, said, "timer shop/tick changed\n"+note)
	require.Contains(t, u.do("apply", "-f", changed, "-o", "json"), "it stays paused")
	require.Contains(t, u.do("timer", "get", "tick"), "status: paused")

	u.in = u.do("export", "--without-app")
	require.NotContains(t, u.do("apply", "-f", "-"), "note", "an export does not ask for a status")
	u.do("apply", "-f", "-", "--app", "shop2")
	require.Contains(t, u.do("timer", "get", "tick", "--app", "shop2"), "status: inactive")
	u.do("timer", "resume", "tick")
	require.NotContains(t, u.do("apply", "-f", file), "note")
}

// TestApplyToAnotherApp checks that only documents without an app follow the flag --app.
func TestApplyToAnotherApp(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	file := u.file("shop.yaml", twoTimers)
	u.do("apply", "-f", file)
	for format, other := range map[string]string{"--ndjson=false": "desk1", "--ndjson": "desk2"} {
		u.in = u.do("export", format)
		for _, command := range []string{"apply", "diff"} {
			out, err := u.try(command, "-f", "-", "--app", "desk")
			require.ErrorContains(t, err, `standard input, document 3: app: expected "desk", `+
				`as --app says, found "shop": leave one of them out`)
			require.ErrorContains(
				t,
				err,
				"carillon import takes the app of crontabs and others by --app",
			)
			require.NotContains(t, out, "created")
		}
		require.Contains(t, u.do("timer", "list", "--app", "desk"), "there is no app")
		require.Equal(t, 3, strings.Count(u.do("apply", "-f", "-", "--app", "shop"), "unchanged"))
		u.env["CARILLON_APP"] = "desk"
		require.Equal(t, 3, strings.Count(u.do("apply", "-f", "-"), "unchanged"), "as they say")
		u.env["CARILLON_APP"] = "shop"

		u.in = u.do("export", format, "--without-app")
		require.NotContains(t, u.in, "shop")
		said := u.do("apply", "-f", "-", "--app", other)
		require.Equal(t, 3, strings.Count(said, "created"), said)
		require.Equal(t, 3, strings.Count(u.do("apply", "-f", "-"), "unchanged"))
	}
	xtimer := u.file("xtimer.json", someTimers)
	require.Contains(t,
		u.refused("import", "--from", "xtimer", xtimer, "--apply", "--app", "desk"),
		`entry 1, digest: app: expected "desk"`,
	)
	require.NotContains(t, u.do("app", "list", "-o", "name"), "mail")
}

// TestExportWithoutOneShotsThatHaveComeDue checks that a copy of an app does not call its one-shots
// again.
func TestExportWithoutOneShotsThatHaveComeDue(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	const url = "--url=https://example.com/hook"
	u.do("timer", "create", "past", "--at", "2020-01-01T00:00:00Z", url)
	u.do("timer", "create", "later", "--at", "2090-01-01T00:00:00Z", url)
	u.do("timer", "create", "waits", "--delay", "48h", url)
	u.do("timer", "create", "stopped", "--delay", "48h", url)
	u.do("timer", "create", "soon", "--delay", "30m", url) // its fire is created at once
	u.do("timer", "pause", "stopped", "soon", "later")
	u.do("timer", "create", "draft", "--at", "2020-01-01T00:00:00Z", url, "--inactive")
	u.do("timer", "create", "daily", "--cron", "0 9 * * *", url)
	names := func(flags ...string) []string {
		var names []string
		docs, _, err := u.split(append([]string{"export", "--ndjson"}, flags...)...)
		require.NoError(t, err)
		for line := range strings.Lines(docs) {
			var doc struct{ Name string }
			require.NoError(t, json.Unmarshal([]byte(line), &doc))
			names = append(names, doc.Name)
		}
		return names
	}
	all := []string{"daily", "draft", "later", "past", "soon", "stopped", "waits"}
	pending := []string{"daily", "draft", "later", "soon", "stopped", "waits"}
	require.Equal(t, all, names())
	require.Equal(t, pending, names("--pending"))
	require.Equal(t, pending, names("--without-app"))
	require.Equal(t, all, names("--without-app", "--pending=false"))
	_, said, err := u.split("export", "--without-app")
	require.NoError(t, err)
	require.Contains(t, said, "1 one-shot that has come due is left out")
}

// TestExportOfUnreadableTimers checks that an export does not pass off what is left of a definition that
// cannot be read as the whole.
func TestExportOfUnreadableTimers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		items := ""
		if r.URL.Path == "/api/v2/timers" {
			items = `{"id":"1","app":"shop","name":"tick","unreadable":"a newer one"}`
		}
		fmt.Fprintf(w, `{"items":[%s],"next_cursor":""}`, items)
	}))
	t.Cleanup(s.Close)
	u := newUser(t, s.URL)
	require.Equal(t, "timer tick: its definition cannot be read: a newer one", u.refused("export"))
}

func TestApplyReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	for text, want := range map[string]string{
		"name: a\nname: b\n":      "document 1",
		"schedule: {kind: at}\n":  "found no name",
		"kind: cron\nname: a\n":   "expected timer or calendar",
		"name: a\n---\nname: a\n": "give it once",
		"- 1\n":                   "expected an object",
		"# nothing\n":             "there is no definition",
		"name: a\nschedule: {kind: at}\ntarget: {}\n": "schedule.at",
	} {
		require.Contains(t, u.refused("apply", "-f", u.file("bad.yaml", text)), want, text)
	}
	require.Contains(t, u.refused("apply"), "--file")
	require.Contains(t, u.refused("apply", "-f", "nowhere"), "no such file")
}

func TestCalendarBackfillAndAppCommands(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CALLBACK_ALLOW", "127.0.0.1:*")
	defer d.Stop(t)
	u := newUser(t, d.Api)
	ics := u.file(
		"holidays.ics",
		"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n"+
			"DTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20261225\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
	)
	u.do("apply", "-f", u.file("c.yaml", "kind: calendar\nname: holidays\n"))
	require.Contains(t, u.do("calendar", "import", "holidays", "-f", ics), "1 dates taken")
	require.Contains(t, u.do("calendar", "get", "holidays"), "2026-12-25")
	require.Contains(t, u.do("calendar", "list"), "holidays")
	preview := u.do(
		"preview",
		"0 9 * * *",
		"--calendar",
		"holidays",
		"--from",
		"2026-12-24T00:00:00Z",
		"-n",
		"2",
	)
	require.Contains(t, preview, "Thursday")
	require.Contains(t, preview, "Saturday")
	require.Contains(t, preview, "excluded: 2026-12-25")
	require.Contains(t, u.do("calendar", "delete", "holidays"), "deleted")

	u.do(
		"timer",
		"create",
		"tick",
		"--cron",
		"0 * * * *",
		"--url",
		"http://127.0.0.1:1/",
		"--attempts",
		"1",
	)
	made := u.do(
		"backfill",
		"start",
		"tick",
		"--from",
		"2026-01-01T00:00:00Z",
		"--to",
		"2026-01-01T03:00:00Z",
		"-o",
		"json",
	)
	var b struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(made), &b))
	require.Contains(t, u.do("backfill", "get", b.ID), "timer_id")
	u.try("backfill", "cancel", b.ID)

	require.Contains(t, u.do("app", "freeze", "--reason", "incident"), "frozen: true")
	require.Contains(t, u.do("app", "get"), "reason: incident")
	require.Contains(t, u.do("app", "unfreeze"), "frozen: false")
	require.Contains(t, u.do("app", "limit", "--rate", "5"), "rate: 5")
	settings := u.do("app", "limit", "--concurrent", "7")
	require.Contains(t, settings, "rate: 5", "limits that are not named stay")
	require.Contains(t, u.do("app", "settings"), "concurrent: 7")

	limit := []string{"app", "limit", "--app", "desk", "--rate", "5"}
	require.Contains(t, u.refused(limit...), "--create makes an app that does not exist yet")
	require.Contains(t, u.do(append(limit, "--create", "--dry-run")...), "rate: 5")
	require.NotContains(t, u.do("app", "list"), "desk")
	require.Contains(t, u.do(append(limit, "--create")...), "version: 1")
	limit = []string{"app", "limit", "--app", "desk", "--burst", "9", "--create"}
	require.Contains(t, u.do(limit...), "rate: 5")

	allowed := func(args ...string) string {
		return u.do(
			append([]string{"app", "allow", "-o", "jsonpath=.allow", "--app", "desk"}, args...)...)
	}
	require.JSONEq(
		t,
		`["10.0.0.0/8:80","*.example.com"]`,
		allowed("10.0.0.0/8:80", "*.example.com"),
	)
	require.JSONEq(t, `["*.example.com","10.1.0.0/16:80"]`,
		allowed("*.example.com", "10.1.0.0/16:80", "--remove", "10.0.0.0/8:80"))
	require.Contains(t, u.do("app", "settings", "--app", "desk"), "burst: 9", "the limits stay")
	require.Contains(t, u.refused("app", "allow", "--app", "desk"), "no rule")
	require.Contains(t, u.refused("app", "allow", "--app", "desk", "--remove", "*.example.org"),
		`the app has no rule "*.example.org"`)
	require.Contains(t, u.refused("app", "allow", "--app", "desk", "10.0.0.0/99"), "allow[2]")
	require.Contains(t, u.refused("app", "allow", "--app", "shpo", "*.example.org"), "--create")
}

// TestAppMayBeAnArgument checks that commands about an app take its name as app delete does, and
// that it wins over all but another one on the same command line.
func TestAppMayBeAnArgument(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api) // of app shop
	u.do("app", "limit", "desk", "--rate", "5", "--create")
	require.Contains(t, u.do("app", "settings", "desk"), "rate: 5")
	require.Contains(t, u.do("app", "get", "desk", "--app", "desk"), "app: desk")
	require.Contains(t, u.do("app", "freeze", "desk", "--reason", "x", "--dry-run"), "frozen: true")
	require.Contains(t, u.do("app", "freeze", "desk", "--reason", "x"), "frozen: true")
	require.Regexp(t, `desk +true`, u.do("app", "list"))
	require.Contains(t, u.do("app", "unfreeze", "desk"), "frozen: false")
	require.NotContains(t, u.do("app", "list"), "shop")
	for _, command := range []string{"get", "settings", "freeze", "unfreeze", "limit"} {
		require.Contains(t, u.refused("app", command, "desk", "-a", "shop"),
			`--app: expected "desk", as the argument says, found "shop": leave one of them out`)
		require.Contains(t, u.refused("app", command, "desk", "shop"), "at most 1 arg")
		require.Contains(t, u.refused("app", command, ""), "argument 1 is empty")
	}
}

func TestKeysAndContexts(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(t, t.TempDir(), "CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin)
	defer d.Stop(t)
	u := newUser(t, "")
	require.Contains(t, u.refused("context", "set", "dev"), "--api")
	require.Contains(t, u.refused("context", "set", "dev", "--api", "foo"), `found "foo"`)
	require.Contains(t, u.refused("timer", "list", "--api", "ftp://foo"), `found "ftp://foo"`)
	require.Contains(
		t,
		u.do("context", "set", "dev", "--api", d.Api, "--app", "shop"),
		"context dev",
	)
	require.Contains(t, u.refused("timer", "list"), "give a key: --key-file")
	key := u.file("key", admin+"\n")
	u.do("context", "set", "dev", "--key-file", key)
	u.do("context", "set", "other", "--api", "http://127.0.0.1:1")
	require.Contains(t, u.do("context", "list"), "*         dev")
	require.Contains(t, u.do("timer", "list"), "NAME")
	require.Contains(t, u.refused("timer", "list", "--context", "other"), "is it running there?")
	u.do("context", "use", "other")
	require.Contains(t, u.refused("timer", "list"), "refused")
	u.env["CARILLON_CONTEXT"] = "dev"
	var made struct{ ID, Key string }
	require.NoError(
		t,
		json.Unmarshal(
			[]byte(u.do("key", "create", "reader", "--scope", "read", "-o", "json")),
			&made,
		),
	)
	require.Contains(t, u.do("key", "list"), "reader")
	require.NotContains(t, u.do("key", "list", "-o", "name"), "reader", "it prints ids")
	u.env["CARILLON_API_KEY"] = made.Key
	require.Contains(t, u.do("timer", "list"), "NAME", "the variable wins over the context")
	require.Contains(
		t,
		u.refused("timer", "create", "a", "--delay", "1h", "--url", "https://example.com"),
		"scope",
	)
	delete(u.env, "CARILLON_API_KEY")
	require.Contains(t, u.do("key", "revoke", made.ID), "revoked")
	u.do("context", "delete", "dev")
	require.Contains(t, u.refused("timer", "list"), `no context "dev"`)
	require.NotContains(t, u.do("context", "list"), "dev")
	u.env["CARILLON_CONTEXTS_FILE"] = u.file("two.yaml", "contexts: {}\n---\ncurrent: other\n")
	require.Contains(t, u.refused("context", "list"), "expected one document")
}

// TestKeysOfTheDeployment checks that such a key is for every app, and that no app's key makes one.
func TestKeysOfTheDeployment(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(t, t.TempDir(), "CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY", admin)
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.env["CARILLON_API_KEY"] = admin
	delete(u.env, "CARILLON_APP")
	key := func(args ...string) (made struct{ ID, Key string }) {
		args = append([]string{"key", "create", "nightly", "-o", "json"}, args...)
		require.NoError(t, json.Unmarshal([]byte(u.do(args...)), &made))
		return made
	}
	require.Contains(t, u.do("key", "create", "x", "--deployment", "--dry-run"), "x")
	require.NotContains(t, u.do("key", "list", "--deployment"), "x")
	every, ofShop := key("--deployment"), key("--app", "shop", "--scope", "admin")
	require.Contains(t, u.do("key", "list", "--deployment"), every.ID)
	require.NotContains(t, u.do("key", "list", "--deployment"), ofShop.ID)
	require.NotContains(t, u.do("key", "list", "--app", "shop"), every.ID)

	u.env["CARILLON_API_KEY"] = every.Key
	u.do("timer", "list", "--app", "shop")
	u.do("timer", "list", "--app", "bank")
	require.Contains(t, u.refused("key", "create", "x", "--deployment"), "scope")
	u.env["CARILLON_API_KEY"] = ofShop.Key
	require.Contains(t, u.refused("key", "create", "x", "--deployment"), "deployment")
	u.env["CARILLON_API_KEY"] = admin
	require.Contains(t, u.do("key", "revoke", "--deployment", every.ID), "revoked")
	require.Contains(
		t,
		u.refused("key", "revoke", "--deployment", ofShop.ID),
		"the deployment has no",
	)
	u.env["CARILLON_API_KEY"] = every.Key
	require.Contains(t, u.refused("timer", "list", "--app", "shop"), "401")
}

func TestSigningKeys(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	require.Contains(t, u.do("signing-key", "create", "--dry-run", "-o", "json"), "hmac")
	require.Contains(t, u.refused("signing-key", "create", "--kind", "rsa"), "ed25519")
	require.NotContains(t, u.do("signing-key", "list"), "hmac")
	var shared, public struct{ ID, Secret, Public string }
	require.NoError(t, json.Unmarshal([]byte(u.do("signing-key", "create", "-o", "json")), &shared))
	require.Contains(t, shared.Secret, "whsec_")
	made := u.do("signing-key", "create", "--kind", "ed25519", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(made), &public))
	require.Contains(t, public.Public, "whpk_")
	require.Empty(t, public.Secret)
	list := u.do("signing-key", "list")
	require.Contains(t, list, shared.ID)
	require.Contains(t, list, public.Public)
	require.NotContains(t, list, "whsec_")
	require.Contains(t, u.do("signing-key", "retire", shared.ID, "--dry-run"), "would be retired")
	require.Contains(t, u.do("signing-key", "retire", shared.ID), "retired")
	require.NotContains(t, u.do("signing-key", "list"), shared.ID)
}

func TestCommandLineErrorsAreOfUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	for _, args := range [][]string{
		{"sing"},
		{"timer", "list", "--sing"},
		{"timer", "get"},
		{"timer", "list", "-o", "xml"},
		{"timer", "create"},
		{"timer", "create", "a", "--url", "http://x"},
		{"timer", "create", "a", "--url", "http://x", "--every", "1h", "--at", "2030-01-01T00:00:00Z"},
		{"timer", "create", "a", "--every", "1h"},
		{"timer", "pause", "a", "--until", "soon"},
		{"preview", "0 99 * * *"},
		{"timer", "list", "--api", "here"},
		{"timer", "list", "--context", "none"},
	} {
		_, err := u.try(args...)
		var problems *config.Problems
		require.ErrorAs(t, err, &problems, "%v", args)
	}
	delete(u.env, "CARILLON_APP")
	_, err := u.try("timer", "list")
	require.ErrorContains(t, err, "no app")
}

// TestFlagErrorsSayWhatToDo checks the errors of arguments that are read in another way than meant.
func TestFlagErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	require.Contains(
		t, u.refused("explain", "tz", "-5m"),
		"in -5m; write -- before an argument that begins with a dash: -- -5m",
	)
	require.Contains(t, u.refused("explain", "tz", "-x"), "carillon explain --help lists the flags")
	create := []string{"timer", "create", "a", "--url", "http://x", "--every", "1h", "-l"}
	require.Contains(
		t, u.refused(append(create, "cost center=a, b")...),
		`--label: expected NAME=VALUE, found " b": a comma separates labels; `+
			`quote one whose value has a comma: --label '"NAME=a, b"'`,
	)
	said := u.refused(append(create, `"cost center=a, b"`)...)
	require.Contains(t, said, "connection refused", "the label is read")
	require.NotContains(t, u.refused(append(create, "a")...), "comma")
}

// TestLongFlagsWithOneDash checks that a flag as the services have it is not read as short ones, and
// that a value which looks like one stays a value.
func TestLongFlagsWithOneDash(t *testing.T) {
	t.Parallel()
	env := func(string) (string, bool) { return "", false }
	try := func(line string) error {
		var out bytes.Buffer
		return cli.Run(t.Context(), strings.Fields(line), env, &out, &out)
	}
	for line, flag := range map[string]string{
		"-app shop timer list":                     "app",
		"timer -app shop list":                     "app",
		"timer list -app shop":                     "app",
		"timer get int1 -app=shop":                 "app",
		"timer fires a -limit 3":                   "limit",
		"timer fires a -help":                      "help",
		"key list --deployment -api http://x":      "api",
		"timer delete --reason -a x -l a -dry-run": "dry-run",
	} {
		require.ErrorContains(t, try(line), "write --"+flag, line)
	}
	for _, line := range []string{
		"timer pause a --api http://127.0.0.1:1 -a b --reason -app",
		"timer list --api http://127.0.0.1:1 -a -app",
		"timer get --api http://127.0.0.1:1 -ab -- -app",
		"timer list -ashop -lteam=pay --api http://127.0.0.1:1",
	} {
		require.ErrorContains(t, try(line), "connection refused", line)
	}
}

// TestUnknownCommandsAreNamed checks that an argument of a group that is no command of it is what the
// error is about, also where flags follow that the group does not have.
func TestUnknownCommandsAreNamed(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	for args, want := range map[string]string{
		"timer move z1 --at now": `unknown command "move" for "carillon timer"; carillon timer --help`,
		"timer --app a move":     `unknown command "move" for "carillon timer"; `,
		"timer resum z1 --at x":  `"carillon timer", did you mean resume?; carillon timer --help`,
		"app lim --speed 5":      `unknown command "lim" for "carillon app", did you mean limit or list?`,
		"fire show 1-1":          `unknown command "show" for "carillon fire"`,
		"calendar create a -f x": `unknown command "create" for "carillon calendar"`,
		"tmer list --limit 3":    `unknown command "tmer" for "carillon", did you mean timer?`,
		"timer --at x move":      "unknown flag: --at; carillon timer --help lists the flags",
	} {
		_, err := u.try(strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
		var problems *config.Problems
		require.ErrorAs(t, err, &problems, args)
	}
}

// TestAuthorityOfContextMustBeValid checks that a wrong file is told as a wrong setting.
func TestAuthorityOfContextMustBeValid(t *testing.T) {
	t.Parallel()
	u := newUser(t, "https://127.0.0.1:1")
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "missing.pem"): "no such file",
		u.file("ca.pem", "no certificate"):        "has no certificate in PEM",
	} {
		u.do("context", "set", "dev", "--api", "https://127.0.0.1:1", "--ca-file", file)
		_, err := u.try("timer", "list", "--context", "dev")
		var problems *config.Problems
		require.ErrorAs(t, err, &problems)
		require.ErrorContains(t, err, "ca-file of the context: ")
		require.ErrorContains(t, err, want)
	}
}

func TestPreviewNeedsNoServer(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	out := u.do(
		"preview",
		"30 2 * * *",
		"--tz",
		"Europe/Berlin",
		"--from",
		"2026-03-28T00:00:00Z",
		"-n",
		"2",
	)
	require.Contains(t, out, "2026-03-28T02:30:00+01:00")
	require.Contains(t, out, "2026-03-29T03:00:00+02:00", "the hour that the clock skips")
	require.Contains(t, out, "Sunday")
	require.Contains(t, u.do("preview", "0 0 0 1 1 * 2020", "-n", "1"), "warning:")
	require.Contains(
		t,
		u.do("preview", "@hourly", "-o", "jsonpath=.fires[*].due", "-n", "2"),
		":00:00Z",
	)
}

func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	for _, name := range []string{"bill", "tick"} {
		u.do("timer", "create", name, "--delay", "1h", "--url", "https://example.com/")
	}
	out := u.do("__complete", "timer", "get", "b")
	require.Contains(t, out, "bill")
	require.NotContains(t, out, "tick")
	require.Contains(t, u.do("completion", "bash"), "carillon")
}

// TestCompletionInLargeApps checks that names are completed of which a list has more before and behind
// them than it shows.
func TestCompletionInLargeApps(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill-first", "--delay", "1h", "--url", "https://example.com/")
	u.do("apply", "-f", u.file("many.ndjson", manyTimers(1000, "https://example.com/")))
	u.do("timer", "create", "bill-last", "--delay", "1h", "--url", "https://example.com/")
	out := u.do("__complete", "timer", "get", "bill")
	require.Contains(t, out, "bill-first\n")
	require.Contains(t, out, "bill-last\n")
	require.NotContains(t, out, "t0000")
	require.Contains(t, u.do("__complete", "timer", "get", ""), "\nt0", "nothing was typed")
}

// TestCompletionOfPrograms completes commands that parse their own flags.
func TestCompletionOfPrograms(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for line, want := range map[string]string{
		"restore -":           "-data-dir",
		"restore -mysql-d":    "-mysql-dsn",
		"restore --data":      "--data-dir",
		"dev -http-a":         "-http-addr",
		"try -":               "-config",
		"echo -":              "-http-addr",
		"topics peek -":       "-latest",
		"topics reset a b -y": "-yes",
		"backup v":            "verify",
		"topics p":            "peek",
	} {
		out := u.do(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.Regexp(t, "(?m)^"+want+`(\t.+)?$`, out, line)
		require.NotContains(t, out, "--api", "a flag of other commands")
	}
	require.NotContains(t, u.do("__complete", "topics", "p"), "list")
	require.Contains(t, u.do("__complete", "timer", "get", "--ap"), "--api")
}

// TestReferenceIsUpToDate compares the committed reference with the commands.
func TestReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	dir := t.TempDir()
	u.do(
		"reference",
		"--markdown",
		filepath.Join(dir, "commands.md"),
		"--man",
		filepath.Join(dir, "man"),
	)
	want, err := os.ReadFile(filepath.Join(dir, "commands.md"))
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run make generate")
	require.FileExists(t, filepath.Join(dir, "man", "carillon-timer-create.1"))
}

// TestReferenceHasAllFlags checks that the section of each command that users call has all flags which
// are not those of every command, also those of the commands above it.
func TestReferenceHasAllFlags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		sections[title] = rest
	}
	root := cli.Root(devtest.NoEnv, strings.NewReader(""), io.Discard, io.Discard)
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		section, shown := sections[c.CommandPath()]
		require.True(t, shown || c.HasSubCommands(), c.CommandPath())
		each := func(f *pflag.Flag) {
			if shown && root.PersistentFlags().Lookup(f.Name) != f && f.Name != "help" {
				require.Contains(t, section, "--"+f.Name+" ", c.CommandPath())
			}
		}
		c.LocalFlags().VisitAll(each) // adds those of the commands above to the flags of c
		c.Flags().VisitAll(each)
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
	require.Contains(t, sections["carillon key revoke"], "--deployment ")
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill", "--cron", "0 9 * * *", "--tz", "Europe/Berlin",
		"--url", "https://example.com/hook")
	at := time.Now().UTC().AddDate(1, 0, 0).Format("2006-") + "07-01T07:00:00Z"
	said := u.do("explain", "bill", at)
	require.Contains(t, said, "T09:00:00+02:00  not_expanded\n")
	require.Contains(t, said, "By \"0 9 * * *\", version 1.")
	require.NotContains(t, said, "Now: ", "nothing holds its fires back")
	require.Contains(t, u.do("explain", "bill", strings.Replace(at, "07:00", "08:00", 1)),
		"The schedule does not have this instant. The nearest are ")
	list := u.do("explain", "bill", "--from", "0s", "--to", "72h")
	require.Equal(t, 4, strings.Count(list, "\n"), list)
	require.Contains(t, list, "EXPLANATION")
	require.Contains(
		t,
		u.do("explain", "bill", at, "-o", "jsonpath=.items[*].code"),
		"not_expanded",
	)
	u.do("timer", "pause", "bill", "--reason", "release")
	u.do("app", "freeze", "--reason", "audit")
	for _, args := range [][]string{{}, {at}, {"--from", "0s", "--to", "72h"}} {
		said := u.do(append([]string{"explain", "bill"}, args...)...)
		require.Contains(t, said, "Now: The timer is paused since ")
		require.Contains(t, said, "(release); the audit trail has by whom.\n")
		require.Contains(t, said, "Now: The app is frozen since ")
		require.Equal(t, len(args) > 0, strings.Contains(said, "The app is frozen: if it stays so"))
		require.NotContains(t, said, "is not called. The app is frozen", "once for each instant")
	}
	u.do("app", "unfreeze")
	id := strings.TrimSpace(u.do("timer", "get", "bill", "-o", "jsonpath=.id"))
	u.do("timer", "delete", "bill")
	require.Contains(t, u.do("explain", id, at), "The timer was deleted at ")
	require.Contains(t, u.refused("explain", "bill", at), "has no timer")
	require.Contains(t, u.refused("explain", "bill", "soon"), "expected 2030-01-31T09:00:00Z")
	require.Contains(t, u.refused("explain", "bill", at, "--from", "0s"), "pass either")
}
