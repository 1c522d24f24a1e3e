package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// lockedText is a buffer that one goroutine writes and another reads.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedText) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedText) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestHistoryOfAnApp(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer endpoint.Close()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CALLBACK_ALLOW", "127.0.0.1:*")
	defer d.Stop(t)
	u := newUser(t, d.Api)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said lockedText
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	root := cli.Root(env, strings.NewReader(""), &said, &said)
	root.SetArgs([]string{"events", "-f", "--selector", "team=pay"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()

	for _, name := range []string{"bill", "other"} {
		u.do("timer", "create", name, "--cron", "* * * * * *", "--url", endpoint.URL,
			"--label", map[string]string{"bill": "team=pay", "other": "team=web"}[name])
	}
	require.Eventually(t, func() bool {
		return strings.Count(said.String(), "delivered") > 2
	}, 30*time.Second, 100*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Contains(t, said.String(), "bill")
	require.NotContains(t, said.String(), "other")

	require.Regexp(
		t,
		`(?m)FINISHED +TIMER.*\n.* bill .*delivered`,
		u.do("fires", "--timer", "bill"),
	)
	require.NotContains(t, u.do("fires", "--state", "failed", "-o", "wide"), "delivered")
	require.Contains(t, u.do("fires", "-o", "json", "--limit", "1"), `"timer_name"`)
	require.Contains(t, u.do("events", "--timer", "other"), "other")
	require.Contains(t, u.do("events", "--timer", "other", "--from", "-1h"), "other")
	require.Empty(t, u.do("events", "--from", "1h"))
	require.Regexp(t, `total +\d+ +0 +0`, u.do("stats"))
	require.Contains(t, u.do("stats", "-o", "yaml"), "truncated: false")
	require.Regexp(t, `#+\n\d+ fires of 2 timers; at most`, u.do("upcoming", "--hours", "1"))
	require.Contains(t, u.do("upcoming", "--hours", "1", "--minutes"), "#")
	require.Contains(t, u.refused("fires", "--finished-from", "x"), "--finished-from: expected")
	require.Contains(t, u.refused("fires", "--timer", "nobody"), "404")
	require.Contains(t, u.refused("events", "-f", "--timer", "nobody"), "404")
}

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestFollowEndsWhereItCannotPrint checks that a stream of events is not read on and on if its output
// takes none of them.
func TestFollowEndsWhereItCannotPrint(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("id: a\nevent: outcome\ndata: {\"id\":\"1-1\"}\n\n"))
	}))
	defer server.Close()
	u := newUser(t, server.URL)
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	var said strings.Builder
	root := cli.Root(env, strings.NewReader(""), full{}, &said)
	root.SetArgs([]string{"events", "--follow"})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.ErrorContains(t, root.ExecuteContext(ctx), "no space left")
}

// TestOneTimerIsNotCounted checks that the load says of one timer that it is not counted.
func TestOneTimerIsNotCounted(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"sampled_timers":1,"left_out":{"max_fires":1}}`: "no fires are due\n" +
			"1 timer is due so often that its fires are estimated\n" +
			"1 timer is not counted: a fixed delay, or the last of max_fires\n",
		`{"sampled_timers":2,"left_out":{"fixed_delays":1,"max_fires":1}}`: "no fires are due\n" +
			"2 timers are due so often that their fires are estimated\n" +
			"2 timers are not counted: fixed delays, or the last of max_fires\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, answer)
		}))
		require.Contains(t, newUser(t, server.URL).do("upcoming"), want)
		server.Close()
	}
}
