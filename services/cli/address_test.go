package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const signIn = "<!DOCTYPE html><html>sign in</html>"

// answer starts a server that gives one answer to everything.
func answer(t *testing.T, status int, kind, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestAnswersOfOthers checks that a wrong address is told with its remedy, and that only a missing
// resource leads to the app.
func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	const problem, text = "application/problem+json", "text/plain; charset=utf-8"
	for name, tt := range map[string]struct {
		status     int
		kind, body string
		want, not  string
	}{
		"page to sign in": {200, "text/html", signIn, "something other than Carillon's API", "invalid character"},
		"admin address":   {404, text, "404 page not found\n", "admin-addr", "another app"},
		"gateway down":    {502, "text/html", signIn, "502 Bad Gateway", "something other"},
		"other path":      {404, problem, `{"detail":"no such path: /x"}`, "check the address of the API", "another app"},
		"other app":       {404, problem, `{"detail":"no timer 7 in this app"}`, "another app", "check the address"},
		"TLS": {
			400, text, "Client sent an HTTP request to an HTTPS server.\n", "use https://", "something other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answer(t, tt.status, tt.kind, tt.body)
			u := newUser(t, s.URL)
			u.env["CARILLON_API_KEY"] = "k"
			for _, command := range [][]string{{"timer", "list"}, {"events"}} {
				said := u.refused(command...)
				require.Contains(t, said, tt.want)
				require.NotContains(t, said, tt.not)
				if tt.status == http.StatusOK {
					require.Contains(t, said, s.URL)
				}
			}
		})
	}
	s := answer(t, 200, "application/json", `{"items":[]}`)
	u := newUser(t, strings.Replace(s.URL, "http:", "https:", 1))
	require.Contains(t, u.refused("timer", "list"), "use http://")
}

// TestAddressMayHaveThePathOfTheAPI as people copy it.
func TestAddressMayHaveThePathOfTheAPI(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v2/timers" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	t.Cleanup(s.Close)
	for _, path := range []string{"", "/", "/api/v2", "/api/v2/"} {
		newUser(t, s.URL+path).do("timer", "list")
		newUser(t, "").do("timer", "list", "--api", s.URL+path)
	}
}

// TestKeysMayHaveWhiteSpace around them, and a byte order mark, but nothing else.
func TestKeysMayHaveWhiteSpace(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k_1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	t.Cleanup(s.Close)
	for text, good := range map[string]bool{
		"k_1": true, "k_1\r\n": true, "\ufeffk_1\n": true, "k_1\x00": false, "k_1\nk_2": false, "k_é": false,
	} {
		inVariable, inFile := newUser(t, s.URL), newUser(t, s.URL)
		inVariable.env["CARILLON_API_KEY"] = text
		file := inFile.file("key", text)
		if good {
			inVariable.do("timer", "list")
			inFile.do("timer", "list", "--key-file", file)
			continue
		}
		require.Contains(t, inVariable.refused("timer", "list"), "CARILLON_API_KEY: expected")
		require.Contains(t, inFile.refused("timer", "list", "--key-file", file), file+": expected")
	}
}
