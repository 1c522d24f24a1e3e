package allinone_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// ansi matches the colors of logs.
var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

// terminal collects what is written to a pseudo-terminal.
type terminal struct {
	tty *os.File

	mu   sync.Mutex
	text strings.Builder
}

// openTerminal opens a terminal that is closed at the test's end.
func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	term := &terminal{tty: tty}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			term.mu.Lock()
			term.text.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil {
				return // the terminal was closed
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, tty.Close())
		<-done
		require.NoError(t, master.Close())
	})
	return term
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ReplaceAll(t.text.String(), "\r\n", "\n")
}

// onTerminal runs the process on a terminal until the panel is there, passes what it printed to
// check, and stops it.
func onTerminal(t *testing.T, env map[string]string, check func(term *terminal)) {
	t.Helper()
	term := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	env["CARILLON_HTTP_ADDR"], env["CARILLON_ADMIN_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
	done := make(chan error, 1)
	go func() {
		get := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
		done <- allinone.Dev(ctx, nil, get, term.tty, term.tty)
	}()
	require.Eventually(
		t,
		func() bool { return strings.Contains(term.String(), "started") },
		20*time.Second,
		5*time.Millisecond,
	)
	check(term)
	cancel()
	require.NoError(t, <-done)
}

// TestPanelOnTerminal checks what a person sees who starts the process, and runs the command that
// it shows.
func TestPanelOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"CARILLON_DATA_DIR": dir, "NO_COLOR": "1", "CARILLON_CANARY": "0"}
	onTerminal(t, env, func(term *terminal) {
		said := term.String()
		for _, want := range []string{
			`Page +http://127\.0\.0\.1:\d+/\n`,
			`API +(http://127\.0\.0\.1:\d+)/api/v2`,
			`Echo +http://127\.0\.0\.1:\d+/dev/echo`,
			`Metrics +http://127\.0\.0\.1:\d+/metrics`,
			`State +http://127\.0\.0\.1:\d+/readyz`,
			`Data +` + regexp.QuoteMeta(dir),
			`Keys +not needed`,
			`(?m)^\d\d:\d\d:\d\d\.\d{3} INF started `,
		} {
			require.Regexp(t, want, ansi.ReplaceAllString(said, ""))
		}
		require.Contains(t, said, "\n  Carillon ", "NO_COLOR")
		require.NotContains(t, said, `{"level"`)
		metrics := regexp.MustCompile(`\S+/metrics`).FindString(said)
		code, _ := devtest.Get(t, metrics)
		require.Equal(t, 200, code)

		example := regexp.MustCompile(`(?m)^ +carillon (timer create .*)$`).FindStringSubmatch(said)
		require.NotNil(t, example, said)
		none := func(string) (string, bool) { return "", false }
		root := cli.Root(none, strings.NewReader(""), io.Discard, io.Discard)
		root.SetArgs(append(
			strings.Fields(strings.Replace(example[1], "$(date +%s)", "1", 1)),
			"--contexts-file", filepath.Join(dir, "none.yaml"),
		))
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.Eventually(
			t,
			func() bool { return strings.Contains(term.String(), `CALL due `) },
			20*time.Second,
			20*time.Millisecond,
		)
	})
}

// TestPanelNamesKeysAndFormats checks the panel of a process that needs keys, with logs as JSON.
func TestPanelNamesKeysAndFormats(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "the key")
	var made strings.Builder
	none := func(string) (string, bool) { return "", false }
	require.NoError(t, cli.AdminKey(t.Context(), nil, none, &made, io.Discard))
	require.NoError(t, os.WriteFile(key, []byte(made.String()), 0o600))
	env := map[string]string{
		"CARILLON_DATA_DIR":               dir,
		"CARILLON_AUTH":                   "on",
		"CARILLON_ADMIN_KEY_FILE":         key,
		"CARILLON_LOG_FORMAT":             "json",
		"CARILLON_CANARY":                 "0",
		"CARILLON_CALLBACK_ALLOW_PRIVATE": "false",
	}
	onTerminal(t, env, func(term *terminal) {
		said := term.String()
		require.Contains(t, said, "needed; the admin key is in "+key)
		require.Contains(
			t,
			said,
			"--url https://example.com/hook",
			"timers may not call this machine",
		)
		require.Contains(t, said, "--key-file '"+key+"'")
		require.Contains(t, said, `"message":"started"`)
		require.Contains(t, said, "\x1b[1mCarillon\x1b[")
	})
}
