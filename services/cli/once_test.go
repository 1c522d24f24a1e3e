package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
)

// TestLostAnswersAreRepeatedOnce loses the answers of commands that make something anew each time. The
// error has the key under which a repetition is done once.
func TestLostAnswersAreRepeatedOnce(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	var mu sync.Mutex // Go's client sends a request again while the first is still being handled
	var keys, bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"id":"7","name":"bill","items":[{"id":"7","name":"bill"}]}`))
		case r.URL.Query().Has("dry_run"):
			_, _ = w.Write([]byte(`{"total":1,"action":"run"}`))
		default:
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			bodies = append(bodies, string(body))
			mu.Unlock()
			if lost.Load() {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(`{"id":"9","status":"done"}`))
		}
	}))
	defer s.Close()
	u := newUser(t, s.URL)
	key := regexp.MustCompile(`--idempotency-key (\w+)`)
	for _, args := range []string{
		"timer run bill", "timer run --all --yes --no-wait", "backfill start bill --from -24h",
		"dead redrive --again --yes", "dead redrive --from -24h --to 0s --yes",
	} {
		lost.Store(true)
		mu.Lock()
		keys, bodies = nil, nil
		mu.Unlock()
		said := u.refused(strings.Fields(args)...)
		require.Contains(t, said, "it may have been done", args)
		named := key.FindStringSubmatch(said)
		require.NotNil(t, named, said)
		lost.Store(false)
		_, repetition, _ := strings.Cut(said, "repeat the command with ")
		u.do(append(strings.Fields(args), strings.Fields(repetition)...)...)
		// Go's client sends a request with a key again itself, if a connection ends that it had kept.
		mu.Lock()
		sent, with := slices.Clone(bodies), slices.Clone(keys)
		mu.Unlock()
		require.GreaterOrEqual(t, len(with), 2, args)
		require.Equal(t, named[1:], slices.Compact(with), args)
		require.Len(
			t,
			slices.Compact(sent),
			1,
			"%s: another body under the key is a conflict",
			args,
		)
	}
	s.Close()
	require.NotContains(
		t,
		u.refused("timer", "run", "bill"),
		"may have been done",
		"nobody listens",
	)
}

// TestWhatWasNotSentWasNotDone checks that a request which did not reach the API, or was answered by a
// redirect, is not said to be done perhaps.
func TestWhatWasNotSentWasNotDone(t *testing.T) {
	t.Parallel()
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.StartTLS() // its certificate is of nobody
	defer unknown.Close()
	moved := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusMovedPermanently))
	defer moved.Close()
	for address, want := range map[string]string{
		unknown.URL: "certificate", moved.URL: "use that as its address",
	} {
		said := newUser(t, address).refused("redrive", "--yes")
		require.Contains(t, said, want)
		require.NotContains(t, said, "may have been done")
	}
}

// TestPartOfAnAnswerIsLost checks that an answer whose connection ends halfway is a lost one.
func TestPartOfAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"id":"7","name":"bill"}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	require.Contains(t, newUser(t, s.URL).refused("timer", "run", "7"), "it may have been done")
}

// TestStoppedCommandsSayHowToGoOn stops commands while they wait for an answer. What they say then has
// the key, and where a redrive goes on.
func TestStoppedCommandsSayHowToGoOn(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"timer run 7":   "repeat the command with --idempotency-key ",
		"redrive --yes": "5 were redriven: go on by the same command with --cursor c1 --idempotency-key ",
	} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		calls := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if calls++; calls == 1 {
				_, _ = w.Write([]byte(`{"id":"7","count":5,"more":true,"next_cursor":"c1"}`))
				return
			}
			stop()
			<-r.Context().Done()
		}))
		defer s.Close()
		u := newUser(t, s.URL)
		env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
		err := cli.Run(ctx, strings.Fields(args), env, io.Discard, io.Discard)
		require.ErrorContains(t, err, "stopped before it was done", args)
		require.ErrorContains(t, err, want, args)
		require.NotErrorIs(t, err, context.Canceled, "a process takes it for success")
	}
}
