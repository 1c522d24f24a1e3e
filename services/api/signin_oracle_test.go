package api_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// oracle returns the directory in which scripts/oidc-oracle.sh installed the provider.
func oracle(t *testing.T) string {
	t.Helper()
	return testenv.Oracle(t, "CARILLON_TEST_OIDC", "scripts/oidc-oracle.sh",
		"signs in by a certified provider")
}

// startOracle runs the provider and returns its issuer.
func startOracle(t *testing.T, redirect string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "oracle/provider.mjs", redirect)
	cmd.Env = append(os.Environ(), "OIDC_ORACLE="+oracle(t))
	var log strings.Builder
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
			return lines.Text()
		}
	}
	t.Fatal(log.String())
	return ""
}

// submits finds where the form of a page of the provider is sent.
var submits = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// TestSignInByACertifiedProvider signs in as a browser does, with a jar of cookies.
func TestSignInByACertifiedProvider(t *testing.T) {
	t.Parallel()
	oracle(t)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	o := signin.Options{
		Issuer:   startOracle(t, server.URL+"/ui/sign-in/callback"),
		ClientID: "page", Secret: "the secret of the page", GroupsClaim: "groups",
		Scopes: []string{"openid", "profile", "groups"}, Length: time.Hour, Now: time.Now,
		Rules: []signin.Rule{{Group: "oncall", App: "shop", Scope: "operate"}},
	}
	provider, err := signin.New(o)
	require.NoError(t, err)
	f, admin := apitest.Guarded(t, func(a *api.Options) { a.Page, a.SignIn = true, provider })
	handler = f.Api.Handler()
	timer := f.ShopsOwn(t, admin).Replace("/ui/apps/shop/timers/<timer>")

	signIn := func(name string) (*http.Client, *http.Response, string) {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		browser := &http.Client{Jar: jar, Timeout: time.Minute}
		do := func(method, to string, form url.Values) (*http.Response, string) {
			r, err := http.NewRequestWithContext(
				t.Context(), method, to, strings.NewReader(form.Encode()),
			)
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			a, err := browser.Do(r)
			require.NoError(t, err)
			defer a.Body.Close()
			b, err := io.ReadAll(a.Body)
			require.NoError(t, err)
			return a, string(b)
		}
		a, body := do(http.MethodGet, server.URL+"/ui/sign-in/start?next="+timer, nil)
		for _, form := range []url.Values{
			{"prompt": {"login"}, "login": {name}, "password": {"x"}},
			{"prompt": {"consent"}},
		} {
			require.Equal(t, http.StatusOK, a.StatusCode, body)
			to := submits.FindStringSubmatch(body)
			require.NotNil(t, to, body)
			at, err := a.Request.URL.Parse(to[1])
			require.NoError(t, err)
			a, body = do(http.MethodPost, at.String(), form)
		}
		return browser, a, body
	}
	browser, a, body := signIn("oncall-ada")
	require.Equal(t, http.StatusOK, a.StatusCode, body)
	require.Equal(t, "0; url="+timer, a.Header.Get("Refresh"))
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+timer, nil)
	require.NoError(t, err)
	page, err := browser.Do(q)
	require.NoError(t, err)
	defer page.Body.Close()
	b, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, page.StatusCode, "%s", b)
	require.Contains(t, string(b), "the oncall-ada")
	require.Contains(t, string(b), timer+"/run")
	require.NotContains(t, string(b), timer+"/edit")

	_, a, body = signIn("stranger-eve")
	require.Equal(t, http.StatusForbidden, a.StatusCode, body)
	require.Contains(t, body, "no role here")
}
