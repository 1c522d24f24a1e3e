package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// programDir returns a directory with a program carillon, for PATH. It is this test binary.
func programDir(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, self)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "carillon"), []byte(script), 0o700))
	return dir
}

// TestExitCodes checks the exit codes that docs/commands.md promises to scripts.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	program := filepath.Join(programDir(t), "carillon")
	contexts := filepath.Join(t.TempDir(), "contexts.yaml")
	u := newUser(t, d.Api)
	file := u.file(
		"a.yaml",
		"name: a\nschedule: {kind: delay, delay: 1h}\ntarget: {url: 'https://example.com/'}\n",
	)
	for _, c := range []struct {
		code int
		args string
	}{
		{0, "version"},
		{0, "timer list"},
		{1, "diff -f " + file}, // there are differences
		{0, "apply -f " + file},
		{0, "diff -f " + file},
		{1, "timer get nobody"},                    // the API refuses
		{1, "timer list --api http://127.0.0.1:1"}, // it cannot be reached
		{1, "calendar import holidays -f " + file}, // not an iCalendar file
		{2, "timer list --sing"},                   // no such flag
		{2, "sing"},                                // no such command
		{2, "timer get"},                           // an argument is missing
		{2, "timer list -o xml"},                   // no such format
		{2, "apply -f nowhere"},                    // no such file
		{2, "timer pause a --until soon"},          // no instant
		{2, "dev -http-addr nowhere"},              // a wrong setting
		{2, "try -sing"},                           // no such setting
		{2, "backup"},                              // no directory is named
		{1, "backup verify ."},                     // it is no backup
		{2, "restore a b"},                         // one directory is named
		{1, "restore ."},                           // it is no backup
	} {
		run := exec.CommandContext(t.Context(), program, strings.Fields(c.args)...)
		run.Dir = t.TempDir()
		run.Env = append(os.Environ(), "CARILLON_API="+d.Api, "CARILLON_APP=shop",
			"CARILLON_CONTEXTS_FILE="+contexts)
		out, err := run.CombinedOutput()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		} else {
			require.NoError(t, err, c.args)
		}
		require.Equal(t, c.code, code, "%s\n%s", c.args, out)
	}
}

// TestWrongFlagsAreNamed checks that a wrong value is refused before a request, with its flag.
func TestWrongFlagsAreNamed(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	for args, want := range map[string]string{
		"job list --limit -3":               "--limit is negative",
		"dead list --limit -3":              "--limit is negative",
		"fires --limit -3":                  "--limit is negative",
		"timer fires a --limit -3":          "--limit is negative",
		"timer list --limit -3":             "--limit is negative",
		"audit --limit -3":                  "--limit is negative",
		"explain a --from 0s --limit -3":    "--limit is negative",
		"events --since yesterday":          "--since: expected ",
		"events --follow --since yesterday": "--since: expected ",
		"events --from yesterday":           "--from: expected ",
		"events --from -1h --since -1h":     "--from: it is the same as --since",
		"fires --due-from x":                "--due-from: expected ",
		"explain a foo":                     "INSTANT: expected ",
		"explain a --from foo":              "--from: expected ",
		"timer create a --every 1h --url http://a.example --attempts -3": "retry.attempts",
		"timer create a --every 1h --url http://a.example --attempts 0":  "retry.attempts",
	} {
		require.Contains(t, u.refused(strings.Fields(args)...), want, args)
	}
}

// TestCommandsThatNeedNoAPI checks that commands which call nothing run where the context does not
// exist, and that others name it.
func TestCommandsThatNeedNoAPI(t *testing.T) {
	t.Parallel()
	u := newUser(t, "nowhere")
	u.env["CARILLON_CONTEXT"] = "deleted"
	for _, args := range [][]string{
		{"version"}, {"preview", "@hourly"}, {"completion", "bash"}, {"reference"},
	} {
		u.do(args...)
		require.Contains(t, u.refused(append(args, "-o", "xml")...), "-o xml: expected", args)
	}
	for _, args := range [][]string{{}, {"help", "timer"}, {"__complete", "context", "use", ""}} {
		u.do(args...)
	}
	for _, args := range [][]string{{"preview", "@hourly", "--calendar", "a"}, {"timer", "list"}} {
		require.Contains(t, u.refused(args...), `no context "deleted"`)
	}
}

// TestContextsNeedAFile checks that a process without a home is told to name the file of contexts,
// and that other commands need none there.
func TestContextsNeedAFile(t *testing.T) {
	t.Parallel()
	program := filepath.Join(programDir(t), "carillon")
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"context", "set", "x", "--api", "http://127.0.0.1:1"}, {"context", "delete", "x"},
	} {
		out, err := run(args...)
		exit, _ := errors.AsType[*exec.ExitError](err)
		require.Equal(t, 2, exit.ExitCode(), out)
		require.Contains(t, out, "--contexts-file")
	}
	out, err := run("preview", "@hourly")
	require.NoError(t, err, out)
}

// TestCompletionScripts checks that each shell's script asks the command itself, which asks the
// API, and that the shell can read it where it is installed.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for shell, begins := range map[string]string{
		"bash":       "# bash completion V2 for carillon",
		"zsh":        "#compdef carillon",
		"fish":       "# fish completion for carillon",
		"powershell": "# powershell completion for carillon",
	} {
		script := u.do("completion", shell)
		require.True(t, strings.HasPrefix(script, begins), "%s: %s", shell, script[:50])
		require.Contains(t, script, "__complete", shell)
		if _, err := exec.LookPath(shell); err != nil || shell == "powershell" {
			continue
		}
		check := exec.CommandContext(t.Context(), shell, "-n", u.file("script", script))
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
	}
}

// TestCompletionInShells completes the name of a timer in the shells that are installed.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "nightly-bill", "--delay", "1h", "--url", "https://example.com/")
	path := programDir(t) + ":" + os.Getenv("PATH")
	for shell, script := range map[string]string{
		"bash": `. /dev/stdin
COMP_WORDS=(carillon timer get nigh) COMP_CWORD=3 COMP_LINE='carillon timer get nigh' COMP_POINT=23
_get_comp_words_by_ref() { cur=nigh prev=get words=("${COMP_WORDS[@]}") cword=3; }
__start_carillon; echo "${COMPREPLY[@]}"`,
		"fish": `source -; complete -C "carillon timer get nigh"`,
		"zsh": `autoload -Uz compinit; compinit -D -d "$HOME/dump"; . /dev/stdin
words=(carillon timer get nigh) CURRENT=4
_describe() { print -l -- "${(@)completions}"; }
_carillon`,
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("SKIPPED, UNTESTED: completion in %s, which is not installed", shell)
			continue
		}
		run := exec.CommandContext(t.Context(), shell, "-c", script)
		run.Stdin = strings.NewReader(u.do("completion", shell))
		run.Env = append(os.Environ(), "PATH="+path, "HOME="+t.TempDir(), "CARILLON_API="+d.Api,
			"CARILLON_APP=shop", "CARILLON_CONTEXTS_FILE="+u.env["CARILLON_CONTEXTS_FILE"])
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
		require.Contains(t, string(out), "nightly-bill", shell)
	}
}
