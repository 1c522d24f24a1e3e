package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// words splits a command line as a shell does, with quotes.
var words = regexp.MustCompile(`'[^']*'|"[^"]*"|[^ ]+`)

// TestGuide runs every command of docs/cli.md, in their order, against one process.
func TestGuide(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	_, manifest, _ := strings.Cut(string(text), "```yaml\n")
	manifest, _, _ = strings.Cut(manifest, "```")
	files := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(files, "shop.yaml"), []byte(manifest), 0o600))
	u := newUser(t, "")
	delete(u.env, "CARILLON_APP")
	u.env["EDITOR"] = "true"
	jobs := u.file("jobs.txt", "0 9 * * * curl https://example.com/bill\n")
	ran := 0
	for line := range strings.Lines(string(text)) {
		line, ok := strings.CutPrefix(line, "carillon ")
		if !ok {
			continue
		}
		line, _, _ = strings.Cut(line, "    ") // what the command does
		line, _, _ = strings.Cut(line, " > ")
		line = strings.NewReplacer("http://127.0.0.1:8080", d.Api, "timers/", files, "jobs.txt", jobs, "jobs.yaml", files, "--man man", "--man "+files).
			Replace(line)
		var args []string
		for _, word := range words.FindAllString(strings.TrimSpace(line), -1) {
			args = append(args, strings.Trim(word, `"'`))
		}
		ran++
		if args[0] == "timer" && args[1] == "watch" || args[0] == "events" {
			u.watch(args...)
			continue
		}
		if strings.Contains(line, "--prune") {
			args = append(args, "--yes")
		}
		out, err := u.try(args...)
		if args[0] == "diff" && err != nil {
			require.ErrorContains(t, err, "differ")
			continue
		}
		require.NoError(t, err, "%s\n%s", line, out)
	}
	require.Greater(t, ran, 15)
}

// watch runs a command that ends when it is told to.
func (u *user) watch(args ...string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Second)
	defer cancel()
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	var out strings.Builder
	root := cli.Root(env, strings.NewReader(""), &out, &out)
	root.SetArgs(args)
	require.NoError(u.t, root.ExecuteContext(ctx))
	require.Contains(u.t, out.String(), "watching")
}
