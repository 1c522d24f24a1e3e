package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestCancelledJobsFail checks that a command which follows a job fails if somebody cancels the job.
func TestCancelledJobsFail(t *testing.T) {
	t.Parallel()
	u := newUser(t, answer(t, http.StatusOK, "application/json",
		`{"id":"7","action":"pause","status":"cancelled","total":12,"done":5,"failed":1}`).URL)
	for _, args := range [][]string{
		{"job", "watch", "7"},
		{"timer", "pause", "--all", "--yes"},
		{"app", "delete", "shop", "--confirm", "shop"},
	} {
		out, err := u.try(args...)
		require.ErrorContains(t, err, "the job was cancelled before it did all of its 12 timers")
		require.Contains(t, out, "pause cancelled: 5 timers, 1 failed")
	}
	out, err := u.try("job", "watch", "7", "-o", "jsonpath=.done")
	require.Error(t, err)
	require.Equal(t, "5\n", out)
}

// TestAppDeletedWithItsKey checks that a deletion by a key of the app does not fail when the key goes
// with the app, and that other jobs do.
func TestAppDeletedWithItsKey(t *testing.T) {
	t.Parallel()
	var action atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"status":401,"detail":"the API does not know this key"}`)
			return
		}
		fmt.Fprintf(w, `{"id":"7","action":%q,"status":"running","total":12}`, action.Load())
	}))
	t.Cleanup(s.Close)
	u := newUser(t, s.URL)
	action.Store("delete_app")
	out := u.do("app", "delete", "shop", "--confirm", "shop")
	require.Contains(t, out, "job 7 ends by itself, and the admin key shows it")
	action.Store("pause")
	_, err := u.try("timer", "pause", "--all", "--yes")
	require.ErrorContains(t, err, "does not know this key")
}

// TestFailedLooksAreRepeated checks that commands which wait outlast an API that begins anew, and
// say what goes on where it refuses them.
func TestFailedLooksAreRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		rest string // in the error output after a refusal
	}{
		{[]string{"job", "watch", "7"}, "job 7 goes on: carillon job watch 7\n"},
		{[]string{"timer", "pause", "--all", "--yes", "-o", "json"}, "job 7 goes on: carillon job watch 7\n"},
		{
			[]string{"backfill", "start", "bill", "--from", "-1h", "--wait"},
			"backfill 7 goes on: carillon backfill get 7\n",
		},
	} {
		for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
			var running, looks atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				kind, followed := "done", strings.HasSuffix(q.URL.Path, "s/7")
				switch {
				case !followed, running.Add(1) == 1 && c.args[0] == "job":
					kind = "running" // or a list of timers
				case looks.Add(1) == 1:
					w.WriteHeader(status)
				}
				_, _ = fmt.Fprintf(w, `{"id":"7","name":"bill","items":[{"id":"7","name":"bill"}],`+
					`"action":"pause","status":%q,"total":2,"done":2}`, kind)
			}))
			defer s.Close()
			out, errOut, err := newUser(t, s.URL).split(c.args...)
			if status == http.StatusForbidden {
				require.ErrorContains(t, err, "403")
				require.Contains(t, errOut, c.rest)
				continue
			}
			require.NoError(t, err, c.args)
			require.Contains(t, out, "done", c.args)
			require.Equal(t, int32(2), looks.Load())
			require.NotContains(t, errOut, "goes on")
		}
	}
}

func TestBulkCommands(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	for i := range 12 {
		u.do("timer", "create", fmt.Sprintf("bill-%d", i),
			"--cron", "@yearly", "--url", "https://example.com/", "-l", "team=pay")
	}
	u.do("timer", "create", "other", "--cron", "@yearly", "--url", "https://example.com/")

	out := u.do("timer", "pause", "-l", "team=pay", "--dry-run")
	require.Contains(t, out, "12 timers would be selected for pause")
	require.Contains(t, out, "bill-9")
	require.NotContains(t, out, "bill-11", "a sample has ten")
	require.Contains(t, u.refused("timer", "pause", "-l", "team=pay"), "--yes")
	require.Contains(t, u.refused("timer", "pause", "--yes"), "a filter such as -l, or --all")
	require.Contains(
		t,
		u.refused("timer", "delete", "-l", " ", "--yes"),
		"expected a requirement such as",
	)
	require.Contains(t, u.refused("timer", "delete", "-l", "", "--yes"), "--labels: expected")
	require.Contains(t,
		u.refused("timer", "delete", "-l", "", "--status", "active", "--yes"), "--labels: expected")
	require.Contains(t, u.refused("timer", "pause", "other", "--all"), "found both")
	require.Contains(t, u.do("timer", "pause", "other", "--dry-run"), "other would be paused")
	require.Contains(t, u.refused("timer", "run", "-l", "team=nobody", "--yes"), "no timer")

	out = u.do("timer", "pause", "-l", "team=pay", "--reason", "moves", "--until", "2h", "--yes")
	require.Contains(t, out, "pause done: 12 timers, 0 failed")
	require.Equal(
		t,
		12,
		strings.Count(u.do("timer", "list", "--status", "paused", "-o", "name"), "\n"),
	)
	out = u.do("timer", "resume", "--name-prefix", "bill-", "--yes")
	require.Contains(t, out, "resume done: 12 timers")
	out = u.do("timer", "label", "-l", "team=pay", "env=prod", "team-", "--yes")
	require.Contains(t, out, "relabel done: 12 timers")
	u.do("timer", "label", "other", "a=b")
	u.do("timer", "label", "other", "c=d", "a-")
	require.Equal(t, "d\n", u.do("timer", "get", "other", "-o", "jsonpath=.labels.c"))
	require.NotContains(t, u.do("timer", "get", "other", "-o", "json"), `"a"`)
	require.Contains(t, u.refused("timer", "label", "other"), "a label to set")
	require.Contains(t, u.refused("timer", "label", "a=b"), "names of timers")
	for _, twice := range [][]string{{"a=b", "a-"}, {"a-", "a=b"}, {"a=b", "a=c"}} {
		said := u.refused(append([]string{"timer", "label", "other"}, twice...)...)
		require.Contains(t, said, `expected each label once, found "a" twice`)
	}

	out = u.do("timer", "run", "--all", "--yes", "--no-wait")
	require.Contains(t, out, "is running")
	id, _, _ := strings.Cut(
		u.do("job", "list", "--limit", "1", "-o", "jsonpath=.items[*].id"),
		"\n",
	)
	require.Contains(t, u.do("job", "watch", id), "run done: 13 timers")
	require.Contains(t, u.do("job", "get", id, "-o", "json"), `"run"`)
	u.do("job", "cancel", id)
	out = u.do("timer", "delete", "-l", "env=prod", "--yes", "-o", "json")
	require.Contains(t, out, `"done"`)
	require.Equal(t, "other\n", u.do("timer", "list", "-o", "name"))

	require.Contains(t, u.refused("app", "delete", "shop"), "--confirm")
	require.Contains(t, u.refused("app", "delete", "shop", "--confirm", "desk"), "--confirm")
	out = u.do("app", "delete", "shop", "--confirm", "shop")
	require.Contains(t, out, "delete_app done: 1 timers, 0 failed")
	require.Empty(t, u.do("timer", "list", "-o", "name"))
}
