package callback_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
)

func TestUserinfo(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"http://me:secret@example.com/a?b=c@d#e": {"http://example.com/a?b=c@d#e", "Basic bWU6c2VjcmV0"},
		"https://me:p%40ss@[::1]:8443":           {"https://[::1]:8443", "Basic bWU6cEBzcw=="},
		"http://me:p@ss@example.com":             {"http://example.com", "Basic bWU6cEBzcw=="},
		"http://me@example.com/":                 {"http://example.com/", "Basic bWU6"},
		"http://me:x@a/{{due}}":                  {"http://a/{{due}}", "Basic bWU6eA=="},
		"http://{{label.user}}:x@a/":             {"http://a/", ""},
		"http://me:s ecret@a/":                   {"http://a/", ""},
	} {
		plain, header, ok := callback.Userinfo(in)
		require.True(t, ok, in)
		require.Equal(t, want, [2]string{plain, header}, in)
	}
	for _, in := range []string{"", "me:secret@host", "http://example.com/@x", "http://example.com?a=@", "http://[::1]/#@"} {
		plain, _, ok := callback.Userinfo(in)
		require.False(t, ok, in)
		require.Equal(t, in, plain)
	}
}

// FuzzUserinfo checks that a URL without its userinfo has the same destination, and that the header
// is the one that net/http would send.
func FuzzUserinfo(f *testing.F) {
	f.Add("http://me:secret@example.com/a?b=c@d")
	f.Add("https://a%2F:b@c:d@[::1]:80/@")
	f.Fuzz(func(t *testing.T, s string) {
		plain, header, ok := callback.Userinfo(s)
		u, err := url.Parse(s)
		if err != nil || !strings.HasPrefix(s, "http") || u.Host == "" {
			return
		}
		require.Equal(t, u.User != nil, ok, s)
		if !ok {
			return
		}
		p, err := url.Parse(plain)
		require.NoError(t, err)
		require.Nil(t, p.User)
		password, _ := u.User.Password()
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(u.User.Username(), password)
		require.Equal(t, r.Header.Get("Authorization"), header)
		u.User = nil
		require.Equal(t, u.String(), p.String())
	})
}

// TestAPasswordInAURLIsRedacted covers a receiver that returns the request.
func TestAPasswordInAURLIsRedacted(t *testing.T) {
	t.Parallel()
	c, r := setup(t, func(w http.ResponseWriter, req *http.Request) {
		_, password, _ := req.BasicAuth()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(req.Header.Get("Authorization") + " " + password))
	})
	r.Target.URL = strings.Replace(r.Target.URL, "http://", "http://me:hunter2-secret@", 1)
	got := c.Call(t.Context(), r)
	require.Contains(t, got.Excerpt, "REDACTED")
	require.NotContains(t, got.Excerpt, "hunter2")
	require.NotContains(t, got.Excerpt, "aHVudGVyMi1zZWNyZXQ")
	require.NotContains(t, got.Error, "hunter2")
}
