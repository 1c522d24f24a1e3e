package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestDeadCommand(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer d.Stop(t)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		admin,
		`{"app":"shop","name":"bill","status":"active","schedule":{"kind":"delay","delay":"10ms"},`+
			`"target":{"url":"http://127.0.0.1:1/"},"retry":{"attempts":1}}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	u := newUser(t, d.Api)
	u.env["CARILLON_API_KEY"] = admin
	dead := func(args ...string) (string, error) { return u.try(append([]string{"dead"}, args...)...) }
	redrive := func(args ...string) (string, error) {
		return dead(append([]string{"redrive"}, args...)...)
	}
	require.Eventually(t, func() bool {
		said, err := redrive()
		require.NoError(t, err)
		return strings.Contains(said, "1 would be redriven")
	}, 20*time.Second, 200*time.Millisecond)
	row := regexp.MustCompile(
		`(?m) bill +(\d+-\d+) +exhausted +1 +- +connect +dial .*connection refused`,
	)
	said, err := dead("list", "--limit", "1")
	require.NoError(t, err)
	require.Regexp(t, row, said)
	fire := row.FindStringSubmatch(said)[1]
	said, err = dead("list", "--from", "-1h", "--to", "1h")
	require.NoError(t, err)
	require.Contains(t, said, fire)
	none, err := dead("list", "--to", "-1h")
	require.NoError(t, err)
	require.NotContains(t, none, fire)
	none, err = dead("list", "--failure", "dns")
	require.NoError(t, err)
	require.NotContains(t, none, fire)
	said, err = dead("show", fire)
	require.NoError(t, err)
	require.Contains(t, said, "reason: exhausted")
	require.Contains(t, said, "connection refused")
	_, err = dead("show", "1-1")
	require.ErrorContains(t, err, "404")

	for _, args := range [][]string{nil, {"--fires", fire}} {
		said, err = redrive(args...)
		require.NoError(t, err)
		require.Regexp(t, `FINISHED +TIMER +FIRE +REASON +ATTEMPTS +CODE +FAILURE`, said)
		require.Regexp(t, row, said, "as the list shows it")
	}
	said, err = redrive("-o", "json")
	require.NoError(t, err)
	require.NotContains(t, said, "FINISHED")

	said, err = redrive("--yes")
	require.NoError(t, err)
	require.Regexp(t, ` bill +`+fire+` +exhausted`, said)
	require.Contains(t, said, "1 redriven")
	none, err = dead("list")
	require.NoError(t, err)
	require.NotContains(t, none, fire+" ", "it is redriven")
	said, err = dead("list", "--again")
	require.NoError(t, err)
	require.Contains(t, said, fire+" ")
	said, err = dead("show", fire)
	require.NoError(t, err)
	require.Contains(t, said, "redriven_as: "+fire+"-")
	said, err = dead("list", "--again", "--timer", "bill")
	require.NoError(t, err)
	require.Contains(t, said, fire+" ")
	said, err = redrive("--again", "--timer", "bill")
	require.NoError(t, err)
	require.Contains(t, said, fire+" ")
	for _, run := range []func(...string) (string, error){
		redrive, func(args ...string) (string, error) { return dead(append([]string{"list"}, args...)...) },
	} {
		_, err = run("--timer", "bil")
		require.ErrorContains(t, err, `timer: no timer "bil" in this app: give the name or the id`)
	}
	_, err = redrive("--fires", "", "--yes")
	require.ErrorContains(t, err, "--fires: expected a value, found none")
	_, err = redrive("--failure", "tired")
	require.ErrorContains(t, err, "422")
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(apikey.New().Reveal()+"\n"), 0o600))
	_, err = redrive("--key-file", file)
	require.ErrorContains(t, err, "does not know this key")

	require.Eventually(t, func() bool { // the redriven one fails, too
		said, err = dead("list")
		require.NoError(t, err)
		return strings.Contains(said, fire+"-")
	}, 20*time.Second, 200*time.Millisecond)
	id, err := u.try("timer", "get", "bill", "-o", "jsonpath=.id")
	require.NoError(t, err)
	id = strings.TrimSpace(id)
	said, err = u.try("timer", "delete", "bill")
	require.NoError(t, err)
	require.Contains(t, said, "carillon fires --timer "+id+" --state failed shows them")
	said, err = u.try("fires", "--timer", id, "--state", "failed")
	require.NoError(t, err)
	require.Contains(t, said, fire)
	for _, args := range [][]string{{}, {"--yes"}, {"--yes", "--again"}} {
		_, err = redrive(append(args, "--fires", fire)...)
		require.ErrorContains(t, err, fire+`, whose timer "bill" was deleted: leave it out`)
		_, err = redrive(append(args, "--timer", id)...)
		require.ErrorContains(t, err, "the timer "+id+" (bill) was deleted")
	}
}

// TestRedriveGoesOn checks that redrive asks for the rest by the cursor of the answer before, until
// the limit or the end.
func TestRedriveGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		calls int
		total string
	}{
		{nil, 3, "25000 redriven"},
		{[]string{"--again"}, 3, "25000 redriven"},
		{[]string{"--limit", "10000"}, 1, "10000 redriven"},
		{[]string{"--limit", "15000"}, 2, "15000 redriven"},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Cursor string
				Limit  int
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil ||
				in.Cursor != []string{"", "c1", "c2"}[calls] {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			calls++
			count, next := 10000, fmt.Sprint("c", calls)
			if in.Limit > 0 {
				count = min(count, in.Limit)
			}
			if calls == 3 {
				count, next = 5000, ""
			}
			fmt.Fprintf(
				w,
				`{"dry_run":false,"count":%d,"more":%v,"next_cursor":%q,"sample":[]}`,
				count, next != "", next,
			)
		}))
		out, err := newUser(t, server.URL).try(append([]string{"redrive", "--yes"}, c.args...)...)
		server.Close()
		require.NoError(t, err, c.args)
		require.Equal(t, c.calls, calls)
		require.Contains(t, out, c.total)
	}
}

// TestRedriveSaysWhereItEnded checks that an error halfway names what is done and how to go on, because
// the same command again would redrive others.
func TestRedriveSaysWhereItEnded(t *testing.T) {
	t.Parallel()
	var cursors, keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Cursor string }
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		_ = json.NewDecoder(r.Body).Decode(&in)
		if cursors = append(cursors, in.Cursor); len(cursors) == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		count, next := 10000, "c1"
		if len(cursors) > 2 {
			count, next = 5000, ""
		}
		fmt.Fprintf(
			w,
			`{"dry_run":false,"count":%d,"more":%v,"next_cursor":%q,"sample":[]}`,
			count, next != "", next,
		)
	}))
	defer server.Close()
	u := newUser(t, server.URL)
	require.Contains(
		t,
		u.refused("redrive", "--yes", "--limit", "15000"),
		"10000 were redriven: go on by the same command with --cursor c1 --limit 5000 --idempotency-key "+
			keys[0],
	)
	said := u.do("redrive", "--yes", "--limit", "5000", "--cursor", "c1")
	require.Contains(t, said, "5000 redriven")
	require.Equal(t, []string{"", "c1", "c1"}, cursors)
	require.Equal(t, keys[0], keys[1], "the requests of one command have one key")
	require.NotEqual(t, keys[0], keys[2], "another command has another one")
	u.do("redrive")
	require.Empty(t, keys[3], "a dry run")
}

// TestRedriveSaysHowMany checks that what would be redriven heeds the limit.
func TestRedriveSaysHowMany(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := struct{ Limit int }{10}
		_ = json.NewDecoder(r.Body).Decode(&in)
		fmt.Fprintf(
			w, `{"dry_run":true,"count":%d,"more":true,"sample":[]}`, min(10, max(in.Limit, 1)),
		)
	}))
	defer server.Close()
	u := newUser(t, server.URL)
	require.Contains(t, u.do("redrive", "--limit", "1"), "1 would be redriven")
	require.NotContains(t, u.do("redrive", "--limit", "1"), "more than")
	require.Contains(t, u.do("redrive", "--limit", "15"), "10 or more would be redriven")
}

// TestRedriveSearchesOn checks that an answer that found none is not the end, also of a dry run.
func TestRedriveSearchesOn(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Cursor string
			Dry    bool `json:"dry_run"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		count, next, sample := 0, "on", ""
		if in.Cursor == "on" {
			count, next, sample = 2, "", `{"id":"5-5"}`
		}
		fmt.Fprintf(w, `{"dry_run":%v,"count":%d,"more":%v,"next_cursor":%q,"sample":[%s]}`,
			in.Dry, count, next != "", next, sample)
	}))
	defer server.Close()
	u := newUser(t, server.URL)
	for args, want := range map[string]string{"": "2 would be redriven", "--yes": "2 redriven"} {
		said := u.do(append([]string{"redrive"}, strings.Fields(args)...)...)
		require.Contains(t, said, want)
		require.Contains(t, said, "5-5")
		require.NotContains(t, said, "0 redriven")
	}
}

func TestDeadRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1")
	delete(u.env, "CARILLON_APP")
	for _, args := range [][]string{{"list"}, {"show", "1-1"}, {"redrive"}} {
		require.Contains(t, u.refused(append([]string{"dead"}, args...)...), "no app")
	}
	u.env["CARILLON_APP"] = "shop"
	require.Contains(t, u.refused("dead", "show"), "requires at least 1 arg")
	require.Contains(t, u.refused("dead", "redrive", "--limit", "-1"), "--limit is negative")
}

// TestDeadListIsPrintable checks that an endpoint's text cannot control the terminal.
func TestDeadListIsPrintable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"id":"7-1","last_error":"\u001b[2Jno"}],"next_cursor":""}`)
	}))
	defer server.Close()
	require.Contains(t, newUser(t, server.URL).do("dead", "list"), `  \x1b[2Jno`)
}
