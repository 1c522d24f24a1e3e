package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
)

// TestStoppedCommandsFail checks that a command that is told to stop before it is done fails, and
// that one which runs until then does not.
func TestStoppedCommandsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		ok   bool
	}{
		"delete": {[]string{"timer", "delete", "7"}, false},
		"export": {[]string{"export"}, false},
		"freeze": {[]string{"app", "freeze"}, false},
		"watch":  {[]string{"timer", "watch", "7"}, true},
		"count":  {[]string{"timer", "watch", "7", "--count", "1"}, false},
		"job":    {[]string{"job", "watch", "7"}, false},
		"follow": {[]string{"events", "--follow"}, true},
		"events": {[]string{"events"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				stop()
				<-q.Context().Done()
			}))
			defer s.Close()
			u := newUser(t, s.URL)
			env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
			err := cli.Run(ctx, c.args, env, io.Discard, io.Discard)
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "stopped")
			require.NotErrorIs(t, err, context.Canceled, "a process takes it for success")
		})
	}
}

// onWrite is a writer that keeps what is written, and calls a function at each write.
type onWrite struct {
	bytes.Buffer

	call func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.call()
	return w.Buffer.Write(p) //nolint:wrapcheck // it never fails
}

// TestStopBetweenLooksAtAJobFails checks that a command which follows a job fails if it is told to stop
// while it waits for the next look, and says that the job goes on.
func TestStopBetweenLooksAtAJobFails(t *testing.T) {
	t.Parallel()
	u := newUser(t, answer(t, http.StatusOK, "application/json",
		`{"id":"7","action":"pause","status":"running","total":12,"done":5}`).URL)
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	for _, args := range [][]string{
		{"job", "watch", "7"},
		{"timer", "pause", "--all", "--yes"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out := &onWrite{call: stop} // progress is printed after the answer
		var errOut bytes.Buffer
		err := cli.Run(ctx, args, env, out, &errOut)
		require.ErrorContains(t, err, "stopped", args)
		require.Contains(t, errOut.String(), "job 7 goes on")
	}
}

// TestRedirectsDoNotMakeReadsOfWrites checks that a redirect which would turn a write into a read is an
// error that names the address.
func TestRedirectsDoNotMakeReadsOfWrites(t *testing.T) {
	t.Parallel()
	var written atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			written.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"7","name":"a","items":[{"id":"7","name":"a"}]}`)
	}))
	defer api.Close()
	var status atomic.Int32
	status.Store(http.StatusMovedPermanently)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, api.URL+q.URL.RequestURI(), int(status.Load()))
	}))
	defer gateway.Close()
	u := newUser(t, gateway.URL)
	u.do("timer", "get", "7")
	require.Contains(t, u.refused("timer", "pause", "7"), "redirects to "+api.URL)
	require.Zero(t, written.Load())
	status.Store(http.StatusPermanentRedirect)
	u.do("timer", "pause", "7")
	require.Positive(t, written.Load())
}

// TestFileExcludesOtherFlags checks that flags beside a file are refused instead of ignored.
func TestFileExcludesOtherFlags(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	file := u.file(
		"timer.yaml",
		"name: a\nschedule: {kind: delay, delay: 1h}\ntarget: {url: http://a}\n",
	)
	for _, flag := range [][]string{{"--inactive"}, {"--every", "5s"}, {"--label", "a=b"}, {"--priority", "high"}} {
		require.Contains(
			t,
			u.refused(append([]string{"timer", "create", "-f", file}, flag...)...),
			"no other flags",
		)
	}
	require.Contains(t, u.refused("timer", "create", "-f", file, "--dry-run"), "refused")
}

// TestFileOfAnotherAppIsRefused checks that --app does not go for nothing beside a file that names
// another app, and that the app of the environment gives way to it.
func TestFileOfAnotherAppIsRefused(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	file := u.file(
		"timer.yaml",
		"app: other\nname: a\nschedule: {kind: delay, delay: 1h}\ntarget: {url: http://a}\n",
	)
	for _, command := range []string{"create", "test"} {
		said := u.refused("timer", command, "-f", file, "--app", "shop")
		require.Contains(t, said, `expected "shop", as --app says, found "other"`, command)
		require.Contains(t, u.refused("timer", command, "-f", file), "refused", "the API is asked")
		said = u.refused("timer", command, "-f", file, "--app", "other")
		require.Contains(t, said, "refused", "the API is asked")
	}
}

// TestContextsKeepWholePaths checks that a context with files works in every folder.
func TestContextsKeepWholePaths(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.do(
		"context",
		"set",
		"dev",
		"--api",
		"http://127.0.0.1:1",
		"--key-file",
		"some.key",
		"--ca-file",
		"some.pem",
	)
	text, err := os.ReadFile(u.env["CARILLON_CONTEXTS_FILE"])
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Contains(t, string(text), filepath.Join(here, "some.key"))
	require.Contains(t, string(text), filepath.Join(here, "some.pem"))
}

// readPipe is a standard input that never ends, and calls a function when it is read.
type readPipe struct {
	io.Reader

	call func()
}

func (r *readPipe) Read(p []byte) (int, error) {
	r.call()
	return r.Reader.Read(p) //nolint:wrapcheck // it is a reader
}

// TestStopWhileInputIsRead checks that commands which wait for their standard input end when they are
// told to stop.
func TestStopWhileInputIsRead(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"apply", "-f", "-"},
		{"timer", "create", "-f", "-"},
		{"import", "--from", "crontab", "-"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		u := newUser(t, "http://127.0.0.1:1")
		env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
		silent, writer := io.Pipe()
		root := cli.Root(env, &readPipe{silent, stop}, io.Discard, io.Discard)
		root.SetArgs(args)
		require.ErrorIs(t, root.ExecuteContext(ctx), context.Canceled, args)
		require.NoError(t, writer.Close())
	}
}

// TestStopAtAQuestion checks that a command ends at a question when it is told to stop, and changes
// nothing.
func TestStopAtAQuestion(t *testing.T) {
	t.Parallel()
	var jobs atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !q.URL.Query().Has("dry_run") {
			jobs.Add(1)
		}
		_, _ = io.WriteString(w, `{"total":2,"action":"delete"}`)
	}))
	defer s.Close()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer tty.Close()
	defer master.Close() // ends the read that is left behind
	ctx, stop := context.WithCancel(t.Context())
	u := newUser(t, s.URL)
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	asked := &onWrite{call: stop}
	root := cli.Root(env, tty, io.Discard, asked)
	root.SetArgs([]string{"timer", "delete", "--all"})
	require.ErrorIs(t, root.ExecuteContext(ctx), context.Canceled)
	require.Contains(t, asked.String(), s.URL+": Delete 2 timers")
	require.Zero(t, jobs.Load())
}
