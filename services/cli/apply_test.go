package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// countingProxy passes requests on to an API and counts them by method and path.
type countingProxy struct {
	*httptest.Server

	mu    sync.Mutex
	calls map[string]int
}

func newCountingProxy(t *testing.T, api string) *countingProxy {
	t.Helper()
	to, err := url.Parse(api)
	require.NoError(t, err)
	p := &countingProxy{calls: make(map[string]int)}
	next := httputil.NewSingleHostReverseProxy(to)
	next.Transport = devtest.Client.Transport
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[r.Method+" "+r.URL.Path]++
		p.mu.Unlock()
		next.ServeHTTP(w, r)
	}))
	return p
}

// take returns the counts since the last call.
func (p *countingProxy) take() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = make(map[string]int)
	return calls
}

// onTerminal runs a command on a terminal of 100 columns and returns what it wrote there.
func (u *user) onTerminal(args ...string) (string, error) {
	u.t.Helper()
	master, tty, err := pty.Open()
	require.NoError(u.t, err)
	defer master.Close()
	require.NoError(u.t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 100}))
	written := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error, because the terminal is closed
		written <- string(text)
	}()
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	root := cli.Root(env, strings.NewReader(u.in), tty, tty)
	root.SetArgs(args)
	failed := root.ExecuteContext(u.t.Context())
	require.NoError(u.t, tty.Close())
	return <-written, failed
}

// manyTimers returns definitions of n timers that call a URL.
func manyTimers(n int, url string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(
			&b,
			`{"name":"t%04d","schedule":{"kind":"cron","specs":["0 9 * * *"]},"target":{"url":%q}}`+"\n",
			i,
			url,
		)
	}
	return b.String()
}

// TestApplyInBatches checks that an apply of many timers needs few requests, and what it reports.
func TestApplyInBatches(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	p := newCountingProxy(t, d.Api)
	defer p.Close()
	u := newUser(t, p.URL)
	const timers = "/api/v2/timers"
	file := u.file("many.ndjson", manyTimers(600, "https://example.com/a"))
	require.Equal(t, 600, strings.Count(u.do("apply", "-f", file), " created\n"))
	require.Equal(t, map[string]int{"GET " + timers: 1, "POST " + timers + ":batch": 2}, p.take())
	require.Equal(t, 600, strings.Count(u.do("apply", "-f", file), " unchanged\n"))
	require.Equal(t, map[string]int{"GET " + timers: 1, "POST " + timers + ":batch": 2}, p.take())

	other := u.file("other.ndjson", manyTimers(2, "https://example.com/b")+
		`{"name":"new","schedule":{"kind":"delay","delay":"1h"},"target":{"url":"https://example.com/"}}`)
	require.Equal(t, 2, strings.Count(u.do("apply", "-f", other), " changed\n"))
	require.Equal(t, map[string]int{"GET " + timers: 3, "POST " + timers + ":batch": 1}, p.take(),
		"few timers are read by name")
	back := u.file("back.ndjson", manyTimers(2, "https://example.com/a"))
	said := u.do("apply", "-f", back, "-o", "json")
	require.Equal(t, 2, strings.Count(said, `"result": "changed"`), said)
	require.Contains(t, said, `+  url: https://example.com/a\n`, "the difference, for programs")

	// Only the status differs, and the version is the same.
	status := u.file(
		"status.yaml",
		"name: t0000\nstatus: active\nschedule: {kind: cron, specs: ['0 9 * * *']}\n"+
			"target: {url: 'https://example.com/a'}\n",
	)
	require.Contains(t, u.do("apply", "-f", status), "timer shop/t0000 changed")
	require.Contains(t, u.do("apply", "-f", status), "timer shop/t0000 unchanged")
}

// TestSeveralResultsAreYAMLDocuments checks that -o yaml prints a document for each result.
func TestSeveralResultsAreYAMLDocuments(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	file := u.file("two.ndjson", manyTimers(2, "https://example.com/a"))
	said, err := u.try("apply", "-f", file, "-o", "yaml")
	require.NoError(t, err, said)
	documents := yamltext.Split([]byte(said), "")
	require.Len(t, documents, 2, said)
	for i, text := range documents {
		var got struct{ Name, Result string }
		node, err := yamltext.Decode(text)
		require.NoError(t, err)
		require.NoError(t, node.Decode(&got))
		require.Equal(t, fmt.Sprintf("t%04d", i), got.Name)
	}
	require.NotContains(t, u.do("timer", "get", "t0000", "-o", "yaml"), "---\n", "of one result")
}

// TestApplyReportsRefusedTimers checks that the refused definitions of a batch are named, and the
// others applied.
func TestApplyReportsRefusedTimers(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	bad := `{"name":"bad","schedule":{"kind":"cron","specs":["61 * * * *"]},"target":{"url":"https://example.com/"}}`
	file := u.file("some.ndjson", manyTimers(2, "https://example.com/")+bad)
	said, err := u.try("apply", "-f", file)
	require.ErrorContains(t, err, "timer shop/bad (")
	require.ErrorContains(t, err, "document 3): 422 Unprocessable Entity: ")
	require.ErrorContains(t, err, "schedule.specs[0]")
	require.Equal(t, 2, strings.Count(said, " created\n"), said)
	require.NotContains(t, said, "--prune")

	u.do("timer", "create", "extra", "--every", "1h", "--url", "https://example.com/")
	for arg, want := range map[string]string{"--yes": "was", "--dry-run": "would be"} {
		said, err := u.try("apply", "-f", file, "--prune", arg)
		require.ErrorContains(t, err, "timer shop/bad (")
		require.Contains(
			t, said, "--prune: nothing "+want+" deleted, because not all could be applied\n")
		require.NotContains(t, said, "extra")
	}
	u.do("timer", "get", "extra")
}

// TestApplyGoesOnWithoutWronglyTypedFields checks that documents whose fields have a wrong type or
// name, for which the API refuses the whole batch, are named, and that the others are applied.
func TestApplyGoesOnWithoutWronglyTypedFields(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	const target = "target: {url: 'https://example.com/'}\n"
	const good = "schedule: {kind: interval, every: 1h}\n" + target
	file := u.file("multi.yaml", "name: first\n"+good+"---\n"+
		"name: number\nschedule: {kind: interval, every: 3600}\n"+target+"---\n"+
		"name: last\n"+good+"---\n"+
		"name: typo\nstatuss: 1\npriority: 7\n"+good)
	said, err := u.try("apply", "-f", file)
	require.EqualError(
		t,
		err,
		"timer shop/number ("+file+", document 2): 422 Unprocessable Entity: "+
			"schedule.every: expected a text, found 3600\n"+
			"timer shop/typo ("+file+", document 4): 422 Unprocessable Entity: "+
			"priority: expected a text, found 7\n"+
			"  priority: expected a text, found 7\n"+
			"  statuss: expected no field of this name, found one: "+
			"leave it out, or look for its right name in the description of the API "+
			"(/api/v2/openapi.yaml)",
	)
	require.Contains(t, said, "timer shop/first created\n")
	require.Contains(t, said, "timer shop/last created\n")

	alone := u.file("alone.yaml", "name: number\nschedule: {kind: interval, every: 3600}\n"+target)
	require.Contains(
		t,
		u.refused("apply", "-f", alone),
		"document 1): 422 Unprocessable Entity: schedule",
	)
}

// TestApplyTellsOfInactiveTimers checks that a note is printed where a new timer is inactive because
// its document has no status, and only there.
func TestApplyTellsOfInactiveTimers(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	const rest = "schedule: {kind: interval, every: 1h}\ntarget: {url: 'https://example.com/'}\n"
	file := u.file("two.yaml", "name: none\n"+rest+"---\nname: given\nstatus: inactive\n"+rest)
	const note = "timer shop/none: note: it is inactive, as its document has no status: " +
		"give it status: active to activate it\n"
	require.Contains(t, u.do("apply", "-f", file, "--dry-run"), note)
	require.Equal(
		t, "timer shop/none created\n"+note+"timer shop/given created\n", u.do("apply", "-f", file),
	)
	require.NotContains(t, u.do("apply", "-f", file), "note", "the timers are there")
	changed := u.file("changed.yaml", "name: none\n"+strings.Replace(rest, "1h", "2h", 1))
	require.Equal(t, "timer shop/none changed\n", u.do("apply", "-f", changed))
}

// TestApplyOnTerminal checks the bar and the colors, and that NO_COLOR leaves the colors out.
func TestApplyOnTerminal(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	file := u.file("some.ndjson", manyTimers(9, "https://example.com/"))
	said, err := u.onTerminal("diff", "-f", file)
	require.ErrorContains(t, err, "differ")
	require.Contains(t, said, "\x1b[32m+name: t0000")
	require.Contains(t, said, "applying  88% |")
	require.True(t, strings.HasSuffix(said, "\x1b[2K\r"), "the bar is removed: %q", said)
	u.env["NO_COLOR"] = "1"
	said, err = u.onTerminal("diff", "-f", file)
	require.ErrorContains(t, err, "differ")
	require.Contains(t, said, "\r\n+name: t0000")
	require.NotContains(t, said, "\x1b[32m")
	said, err = u.onTerminal("apply", "-f", file)
	require.NoError(t, err)
	require.Contains(t, said, "timer shop/t0008 created\r\n")

	for _, args := range [][]string{
		{"export"},
		{"import", "--from", "crontab", u.file("jobs", "0 9 * * * curl https://example.com/"), "--apply"},
		{"dead", "redrive", "--yes"},
		{"backfill", "start", "t0000", "--from", "-1h", "--wait"},
	} {
		said, err := u.onTerminal(args...)
		require.NoError(t, err, said)
		require.Contains(t, said, "\x1b[2K\r", "%v shows its progress", args)
		out, errOut, err := u.split(args...)
		require.NoError(t, err)
		require.NotContains(t, out+errOut, "\x1b", "not without a terminal")
	}
}

// TestAppliedIsNotRefused checks that a timer which was applied is not said to be refused, if what it
// has become cannot be read.
func TestAppliedIsNotRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/timers:batch"):
			_, _ = w.Write([]byte(`{"items":[{"id":"7","version":1,"result":"created"}]}`))
		case strings.HasSuffix(r.URL.Path, "/timers/7"):
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte(`{"items":[],"next_cursor":""}`))
		}
	}))
	defer s.Close()
	u := newUser(t, s.URL)
	file := u.file(
		"bill.yaml",
		"name: bill\nschedule: {kind: delay, delay: 1h}\ntarget: {url: \"https://e.com\"}\n",
	)
	said := u.do("apply", "-f", file, "-o", "json")
	require.Contains(t, said, "what changed could not be read")
	require.Contains(t, said, `"created"`)
}

// TestWhatGetPrintsIsAFile checks that create, apply and edit leave out what only the service sets.
func TestWhatGetPrintsIsAFile(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill", "--cron", "0 9 * * *", "--url", "https://example.com/")
	u.do("timer", "pause", "bill", "--reason", "moves")
	u.do("apply", "-f", u.file("days.yaml",
		"kind: calendar\nname: days\nexcluded_dates: [2030-01-01]\n"))
	for _, format := range []string{"yaml", "json"} {
		timer := u.file("timer.yaml", u.do("timer", "get", "bill", "-o", format))
		require.Contains(t, u.do("timer", "create", "-f", timer), "is there already", format)
		require.Contains(t, u.do("apply", "-f", timer), "timer shop/bill unchanged", format)
		require.Contains(t, u.do("timer", "get", "bill"), "status: paused", "it stays so")
		days := u.file("days.yaml", u.do("calendar", "get", "days", "-o", format))
		require.Contains(t, u.do("apply", "-f", days), "calendar shop/days unchanged", format)
	}
	u.do("timer", "create", "-f", u.file("copy.yaml",
		strings.Replace(u.do("timer", "get", "bill"), "name: bill", "name: copy", 1)))
	require.Contains(t, u.do("timer", "get", "copy"), "status: inactive")
	require.Contains(t,
		u.refused("apply", "-f", u.file("d.yaml", "name: days\nexcluded_dates: [2030-01-01]\n")),
		"found the dates of a calendar: add kind: calendar")
	require.Contains(t, u.refused("apply", "-f", u.file("t.yaml", "name: x\nstatus: paused\n"+
		"schedule: {kind: delay, delay: 1h}\ntarget: {url: \"https://example.com/\"}\n")), "status")
}
