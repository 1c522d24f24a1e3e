package api_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// identityProvider signs in whom it is told to, without asking.
type identityProvider struct {
	*httptest.Server

	key    *rsa.PrivateKey
	claims map[string]any // of the next token, over those of every token
	asked  url.Values     // the latest request for authorization
}

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &identityProvider{key: key}
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{
		{PublicKey: key.Public(), KeyID: "k", Algorithm: "RS256"},
	}}
	mux := http.NewServeMux()
	mux.Handle("/", keys)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if r.PostFormValue("code") != "the code" ||
			p.asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			http.Error(w, "invalid_grant", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "a", "token_type": "Bearer",
			"id_token": p.token(map[string]any{"aud": "page", "nonce": p.asked.Get("nonce")}),
		})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	keys.SetIssuer(p.URL)
	return p
}

// token returns a signed token with claims.
func (p *identityProvider) token(claims map[string]any) string {
	all := map[string]any{
		"iss": p.URL, "sub": "u1", "name": "Ada", "groups": []string{},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	for _, some := range []map[string]any{claims, p.claims} {
		maps.Copy(all, some)
	}
	b, _ := json.Marshal(all)
	return oidctest.SignIDToken(p.key, "k", "RS256", string(b))
}

// withProvider sets up an API whose people are known by a provider.
func withProvider(t *testing.T, p *identityProvider) (*apitest.Fixture, string) {
	t.Helper()
	provider, err := signin.New(p.options(t))
	require.NoError(t, err)
	return apitest.Guarded(t, func(a *api.Options) {
		a.Page, a.SignIn, a.Auth.Tokens = true, provider, provider
	})
}

// options returns the settings of an API that trusts the provider.
func (p *identityProvider) options(t *testing.T) signin.Options {
	t.Helper()
	o := signin.Options{
		Issuer: p.URL, ClientID: "page", Secret: "s", Audience: "carillon",
		GroupsClaim: "groups", Scopes: []string{"openid"}, Length: time.Hour, Now: time.Now,
	}
	for _, r := range []string{
		"oncall=operator@shop", "dev=editor@shop", "dev=viewer@desk", "root=admin@*", "audit=viewer@*",
		"lead=admin@shop",
	} {
		rule, err := signin.ParseRule(r)
		require.NoError(t, err)
		o.Rules = append(o.Rules, rule)
	}
	return o
}

// start begins a sign-in, and returns the cookie of its flow.
func (p *identityProvider) start(t *testing.T, f *apitest.Fixture) *http.Cookie {
	t.Helper()
	a := f.Call(t, http.MethodGet, "/ui/sign-in/start?next=/ui/apps/shop/timers", "", nil)
	require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
	to, err := url.Parse(a.Header.Get("Location"))
	require.NoError(t, err)
	p.asked = to.Query()
	require.Equal(t, "S256", p.asked.Get("code_challenge_method"))
	require.Equal(t, "http://example.com/ui/sign-in/callback", p.asked.Get("redirect_uri"))
	c, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	return c
}

func callback(
	t *testing.T, f *apitest.Fixture, query url.Values, flow *http.Cookie,
) (apitest.Answer, map[string]string) {
	t.Helper()
	a := f.Call(t, http.MethodGet, "/ui/sign-in/callback?"+query.Encode(), "",
		map[string]string{"Cookie": flow.Name + "=" + flow.Value})
	for _, line := range a.Header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		require.NoError(t, err)
		if c.Name == "carillon_session" {
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			return a, map[string]string{"Cookie": c.Name + "=" + c.Value}
		}
	}
	return a, nil
}

// signIn returns the header of a person's session.
func (p *identityProvider) signIn(
	t *testing.T, f *apitest.Fixture, groups ...string,
) map[string]string {
	t.Helper()
	return p.signInAs(t, f, "u1", groups...)
}

// signInAs is signIn of a person with an id.
func (p *identityProvider) signInAs(
	t *testing.T, f *apitest.Fixture, subject string, groups ...string,
) map[string]string {
	t.Helper()
	p.claims = map[string]any{"sub": subject, "groups": groups}
	flow := p.start(t, f)
	a, session := callback(t, f, url.Values{
		"code": {"the code"}, "state": {p.asked.Get("state")},
	}, flow)
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	require.Equal(t, "0; url=/ui/apps/shop/timers", a.Header.Get("Refresh"))
	require.NotNil(t, session)
	require.Contains(t, strings.Join(a.Header.Values("Set-Cookie"), "\n"), "carillon_made_key=;",
		"what the browser's last viewer was shown")
	return session
}

// TestPeopleHaveRolesPerApp signs in by a provider, and looks at what the page offers and allows.
func TestPeopleHaveRolesPerApp(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	f, admin := withProvider(t, p)
	made := f.ShopsOwn(t, admin)
	f.Call(t, http.MethodPost, "/api/v2/timers",
		strings.Replace(apitest.V2Body, `"shop"`, `"desk"`, 1), apitest.Bearer(admin))
	timer := made.Replace("/ui/apps/shop/timers/<timer>")
	post := func(path string, session map[string]string) int {
		h := map[string]string{
			"Content-Type": "application/x-www-form-urlencoded", "Cookie": session["Cookie"],
		}
		return f.Call(t, http.MethodPost, path, "", h).Status
	}
	for _, c := range []struct {
		groups              []string
		operate, edit, keys bool
		desk, operations    int
	}{
		{[]string{"oncall", "unknown"}, true, false, false, 404, 404},
		{[]string{"dev"}, true, true, false, 200, 404},
		{[]string{"audit", "oncall"}, true, false, false, 200, 200},
		{[]string{"root"}, true, true, true, 200, 200},
		{[]string{"audit"}, false, false, false, 200, 200},
	} {
		session := p.signIn(t, f, c.groups...)
		page := f.Call(t, http.MethodGet, timer, "", session)
		require.Equal(t, http.StatusOK, page.Status, page.Body)
		require.Contains(t, page.Body, "Ada")
		require.Equal(t, c.operate, strings.Contains(page.Body, timer[3:]+"/run"), c.groups)
		require.Equal(t, c.edit, strings.Contains(page.Body, timer[3:]+"/edit"), c.groups)
		want := map[bool]int{true: http.StatusSeeOther, false: http.StatusForbidden}
		require.Equal(t, want[c.operate], post(timer+"/run", session), c.groups)
		app := f.Call(t, http.MethodGet, "/ui/apps/shop/app", "", session)
		require.Equal(t, c.keys, strings.Contains(app.Body, "/app/keys"), c.groups)
		require.Equal(
			t,
			c.desk,
			f.Call(t, http.MethodGet, "/ui/apps/desk/timers", "", session).Status,
		)
		require.Equal(
			t,
			c.operations,
			f.Call(t, http.MethodGet, "/ui/operations", "", session).Status,
		)
		apps := f.Call(t, http.MethodGet, "/ui/", "", session)
		require.Contains(t, apps.Body, "/ui/apps/shop")
		require.Equal(t, c.desk == 200, strings.Contains(apps.Body, "/ui/apps/desk"), c.groups)
	}
	// An editor of shop is a viewer of desk.
	dev := p.signIn(t, f, "dev")
	require.Equal(t, http.StatusForbidden, post("/ui/apps/desk/app/freeze", dev))
	require.Equal(t, http.StatusSeeOther, post("/ui/apps/shop/app/freeze", dev))
	// The session is none of the API, whose callers send what they know.
	a := f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", dev)
	require.Equal(t, http.StatusUnauthorized, a.Status)
}

// TestRefusedSignIns checks that nobody signs in by the answer to another's sign-in, or by a token
// that is not for this one.
func TestRefusedSignIns(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	f, _ := withProvider(t, p)
	other := newIdentityProvider(t)
	for name, c := range map[string]struct {
		status int
		claims map[string]any
		change func(url.Values)
	}{
		"no role":        {403, map[string]any{"groups": []string{"nobody"}}, nil},
		"state":          {400, nil, func(q url.Values) { q.Set("state", "x") }},
		"no state":       {400, nil, func(q url.Values) { q.Del("state") }},
		"code":           {403, nil, func(q url.Values) { q.Set("code", "x") }},
		"error":          {403, nil, func(q url.Values) { q.Set("error", "access_denied") }},
		"nonce":          {403, map[string]any{"nonce": "x"}, nil},
		"audience":       {403, map[string]any{"aud": "carillon"}, nil},
		"another client": {403, map[string]any{"aud": []string{"page", "x"}, "azp": "x"}, nil},
		"expired":        {403, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, nil},
		"another issuer": {403, map[string]any{"iss": other.URL}, nil},
	} {
		p.claims = map[string]any{"groups": []string{"root"}}
		maps.Copy(p.claims, c.claims)
		flow := p.start(t, f)
		query := url.Values{"code": {"the code"}, "state": {p.asked.Get("state")}}
		if c.change != nil {
			c.change(query)
		}
		a, session := callback(t, f, query, flow)
		require.Equal(t, c.status, a.Status, name)
		require.Nil(t, session, name)
	}
	p.claims = map[string]any{"groups": []string{"root"}}
	p.start(t, f)
	query := url.Values{"code": {"the code"}, "state": {p.asked.Get("state")}}
	a, session := callback(t, f, query, &http.Cookie{Name: "carillon_sign_in", Value: "x"})
	require.Equal(t, 400, a.Status)
	require.Nil(t, session)
}

// TestSessionsEnd checks that a session ends with its time, with the rules of its groups, and by the
// instant of the settings.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	p, keys := newIdentityProvider(t), apitest.Keyring(t)
	replica := func(change func(*signin.Options)) *apitest.Fixture {
		o := p.options(t)
		change(&o)
		provider, err := signin.New(o)
		require.NoError(t, err)
		return apitest.Setup(t, func(a *api.Options) {
			a.Auth = auth.Rules{}
			a.Page, a.SignIn, a.Secrets, a.Now = true, provider, keys, o.Now
		})
	}
	same := func(*signin.Options) {}
	session := p.signIn(t, replica(same), "root")
	for want, change := range map[int][]func(*signin.Options){
		http.StatusOK: {same, func(o *signin.Options) { o.Since = time.Now().Add(-time.Hour) }},
		http.StatusSeeOther: {
			func(o *signin.Options) { o.Since = time.Now().Add(time.Hour) },
			func(o *signin.Options) {
				o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
			},
			func(o *signin.Options) { // shorter sessions since it began
				o.Length, o.Now = time.Minute, func() time.Time { return time.Now().Add(2 * time.Minute) }
			},
		},
		http.StatusForbidden: {func(o *signin.Options) { o.Rules = o.Rules[:1] }},
	} {
		for i, c := range change {
			a := replica(c).Call(t, http.MethodGet, "/ui/", "", session)
			require.Equal(t, want, a.Status, "%d", i)
		}
	}
}

// TestSessionsOfOnePersonEnd checks that the sessions of one person end in every process, that those
// of others stay, and that the person may sign in again at once.
func TestSessionsOfOnePersonEnd(t *testing.T) {
	t.Parallel()
	p, keys := newIdentityProvider(t), apitest.Keyring(t)
	replica := func(of api.Store) *apitest.Fixture {
		provider, err := signin.New(p.options(t))
		require.NoError(t, err)
		return apitest.Setup(t, func(a *api.Options) {
			a.Auth = auth.Rules{Tokens: provider}
			a.Page, a.SignIn, a.Secrets = true, provider, keys
			if of != nil {
				a.Store = of
			}
		})
	}
	here := replica(nil)
	there := replica(here.Store)
	status := func(f *apitest.Fixture, session map[string]string) int {
		return f.Call(t, http.MethodGet, "/ui/", "", session).Status
	}
	ada := p.signInAs(t, here, "ada", "root")
	elsewhere := p.signInAs(t, there, "ada", "audit")
	bob := p.signInAs(t, here, "bob", "root")
	for _, session := range []map[string]string{ada, elsewhere, bob} {
		require.Equal(t, http.StatusOK, status(here, session))
		require.Equal(t, http.StatusOK, status(there, session))
	}
	p.claims = nil
	end := func(query, body, group string) apitest.Answer {
		token := p.token(map[string]any{"aud": "carillon", "groups": []string{group}})
		return here.Call(t, http.MethodPost, "/api/v2/people/end-sessions"+query, body,
			apitest.Bearer(token))
	}
	const body = `{"subject":"ada"}`
	require.Equal(t, http.StatusForbidden, end("", body, "audit").Status)
	require.Equal(t, http.StatusForbidden, end("", body, "dev").Status)
	var located apitest.V2Problem
	end("", `{"subject":" ada"}`, "root").Into(t, http.StatusUnprocessableEntity, &located)
	require.Equal(t, "body.subject", located.Errors[0].Location)
	require.Equal(t, http.StatusOK, end("?dry_run=true", body, "root").Status)
	require.Equal(t, http.StatusOK, status(here, ada))

	// Bob ends them by the page, which a person who may only see is not offered.
	const form = "/ui/operations/people/end-sessions"
	require.NotContains(t, here.Call(t, "GET", "/ui/operations", "", elsewhere).Body, form)
	page := here.Call(t, "GET", "/ui/operations?person=ada", "", bob)
	require.Contains(t, page.Body, form)
	require.Contains(t, page.Body, `value="ada"`)
	post := map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Cookie": bob["Cookie"],
	}
	a := here.Call(t, http.MethodPost, form, "subject=ada", post)
	require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
	require.Equal(t, http.StatusSeeOther, status(here, ada), "at once in this process")
	require.Equal(t, http.StatusSeeOther, status(here, elsewhere))
	require.Eventually(t, func() bool {
		return status(there, ada) == http.StatusSeeOther &&
			status(there, elsewhere) == http.StatusSeeOther
	}, 5*time.Second, 50*time.Millisecond)
	require.Equal(t, http.StatusOK, status(there, bob))
	a = here.Call(t, http.MethodPost, form, "subject=+", post)
	require.Equal(t, http.StatusUnprocessableEntity, a.Status)
	require.Contains(t, a.Body, "subject: expected")

	again := p.signInAs(t, there, "ada", "audit")
	require.Equal(t, http.StatusOK, status(there, again))
	require.Equal(t, http.StatusOK, status(here, again))

	var trail struct {
		Items []struct {
			Action, Resource string
			Actor            struct{ Kind, ID string }
			After            map[string]string
		}
	}
	p.claims = nil
	token := p.token(map[string]any{"aud": "carillon", "groups": []string{"root"}})
	here.Call(t, http.MethodGet, "/api/v2/audit?kind=person&resource=ada", "",
		apitest.Bearer(token)).Into(t, 200, &trail)
	require.Len(t, trail.Items, 1, "refused and dry runs add none")
	require.Equal(t, "end_sessions", trail.Items[0].Action)
	require.Equal(t, "bob", trail.Items[0].Actor.ID)
	require.Equal(t, p.URL, trail.Items[0].After["issuer"])
	require.NotEmpty(t, trail.Items[0].After["ended_before"])
	require.Contains(t, here.Call(t, "GET", "/ui/operations/audit", "", bob).Body,
		"/ui/operations?person=bob#people")
}

// TestAdminsOfAnAppEndNoSessions checks that the audit page of an app offers the end of sessions to
// those alone who may end them.
func TestAdminsOfAnAppEndNoSessions(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	f, admin := withProvider(t, p)
	f.ShopsOwn(t, admin)
	root := p.signInAs(t, f, "bob", "root")
	a := f.Call(t, http.MethodPost, "/ui/apps/shop/app/freeze", "", map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Cookie": root["Cookie"],
	})
	require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
	lead := p.signInAs(t, f, "eve", "lead", "audit")
	for _, c := range []struct {
		session map[string]string
		offered bool
	}{{root, true}, {lead, false}} {
		page := f.Call(t, http.MethodGet, "/ui/apps/shop/audit", "", c.session)
		require.Equal(t, http.StatusOK, page.Status, page.Body)
		require.Contains(t, page.Body, "<code>bob</code>")
		require.Equal(t, c.offered, strings.Contains(page.Body, "person=bob#people"))
	}
}

// TestEndsOfSessionsUnknown checks that nobody is admitted whose sessions may have been ended, and
// that there are none to end without a provider.
func TestEndsOfSessionsUnknown(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	var down atomic.Bool
	provider, err := signin.New(p.options(t))
	require.NoError(t, err)
	f := apitest.Setup(t, func(a *api.Options) {
		a.Auth, a.Page, a.SignIn = auth.Rules{}, true, provider
		a.Store = &forgetfulStore{a.Store, &down}
	})
	session := p.signIn(t, f, "root")
	down.Store(true)
	// What was read a moment ago counts for some seconds more.
	require.Equal(t, http.StatusOK, f.Call(t, http.MethodGet, "/ui/", "", session).Status)
	flow := p.start(t, f)
	a, other := callback(t, f, url.Values{
		"code": {"the code"}, "state": {p.asked.Get("state")},
	}, flow)
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.Nil(t, other)
	require.Eventually(t, func() bool {
		a := f.Call(t, http.MethodGet, "/ui/", "", session)
		return a.Status == http.StatusServiceUnavailable
	}, 20*time.Second, 100*time.Millisecond)
	session["Sec-Fetch-Site"] = "same-origin"
	session["Content-Type"] = "application/x-www-form-urlencoded"
	a = f.Call(t, http.MethodPost, "/ui/apps/shop/timers/new", "url=what+was+typed", session)
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.Contains(t, a.Body, `value="what was typed"`, "the editor stays")
	require.Contains(t, a.Body, "Nothing was saved")
	require.Equal(t, "/ui/sign-in",
		f.Call(t, http.MethodPost, "/ui/sign-out", "", session).Header.Get("Location"))

	alone := apitest.Setup(t)
	alone.Problem(t, http.StatusConflict, http.MethodPost, "/api/v2/people/end-sessions",
		`{"subject":"ada"}`)
}

// forgetfulStore does not know since when sessions count while it is down.
type forgetfulStore struct {
	api.Store

	down *atomic.Bool
}

func (s *forgetfulStore) SignInsEnded(
	ctx context.Context, issuer, subject string,
) (int64, error) {
	if s.down.Load() {
		return 0, timer.Unavailable("reading whether a person's sessions are ended", nil)
	}
	return s.Store.SignInsEnded(ctx, issuer, subject)
}

// TestMachinesCallByTokens calls the API by tokens of the provider.
func TestMachinesCallByTokens(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	f, admin := withProvider(t, p)
	f.ShopsOwn(t, admin)
	call := func(method, path, body string, claims map[string]any) int {
		return f.Call(t, method, path, body, apitest.Bearer(p.token(claims))).Status
	}
	of := func(group string) map[string]any {
		return map[string]any{"aud": "carillon", "groups": []string{group}}
	}
	require.Equal(t, 200, call("GET", "/api/v2/timers?app=shop", "", of("oncall")))
	require.Equal(t, 404, call("GET", "/api/v2/timers?app=desk", "", of("oncall")))
	require.Equal(t, 403, call("POST", "/api/v2/timers", apitest.V2Body, of("oncall")))
	require.Equal(t, 200, call("PUT", "/api/v2/timers", apitest.V2Body, of("dev")))
	require.Equal(t, 403, call("GET", "/api/v2/apps/shop", "", of("nobody")))
	require.Equal(t, 403, call("GET", "/api/v2/keys", "", of("audit")))
	require.Equal(t, 200, call("GET", "/api/v2/keys", "", of("root")))
	// As for keys, v1 needs write to write, in the app of the request.
	v1 := strings.Replace(apitest.V1Body, `"bill"`, `"v1"`, 1)
	require.Equal(t, 200, call("POST", "/api/timer/v1/def", v1, of("dev")))
	desk := strings.Replace(v1, `"shop"`, `"desk"`, 1)
	require.Equal(t, 403, call("POST", "/api/timer/v1/def", desk, of("dev")))

	ofPage := of("root")
	ofPage["aud"] = "page"
	require.Equal(t, 401, call("GET", "/api/v2/keys", "", ofPage), "a token of a sign-in")
	late := of("root")
	late["exp"] = time.Now().Add(-time.Hour).Unix()
	answer := f.Call(t, "GET", "/api/v2/keys", "", apitest.Bearer(p.token(late)))
	require.Equal(t, 401, answer.Status)
	require.Contains(t, answer.Body, "the bearer token is expired")
	nobody := of("root")
	nobody["sub"] = ""
	require.Equal(
		t,
		401,
		call("GET", "/api/v2/keys", "", nobody),
		"the audit trail could not name it",
	)
	forged := newIdentityProvider(t)
	token := forged.token(
		map[string]any{"iss": p.URL, "aud": "carillon", "groups": []string{"root"}},
	)
	require.Equal(t, 401, f.Call(t, "GET", "/api/v2/keys", "", apitest.Bearer(token)).Status)
	require.Equal(t, 200, f.Call(t, "GET", "/api/v2/keys", "", apitest.Bearer(admin)).Status)
}

// endsAt makes the provider tell where sessions are ended.
func (p *identityProvider) endsAt(address string) {
	served := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/openid-configuration" {
			served.ServeHTTP(w, r)
			return
		}
		told := httptest.NewRecorder()
		served.ServeHTTP(told, r)
		var all map[string]any
		_ = json.Unmarshal(told.Body.Bytes(), &all)
		all["end_session_endpoint"] = address
		_ = json.NewEncoder(w).Encode(all)
	})
}

// TestSignOutAfterARestart checks that a process which has not asked the provider yet sends viewers who
// sign out there, and that they come back to the address that the provider knows.
func TestSignOutAfterARestart(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	p.endsAt("https://id.example.com/logout")
	o := p.options(t)
	o.RedirectURL = "https://timers.example.com/ui/sign-in/done"
	provider, err := signin.New(o)
	require.NoError(t, err)
	to, err := url.Parse(
		provider.EndSession(t.Context(), "http://10.0.0.7:8080", "/ui/sign-in"),
	)
	require.NoError(t, err)
	require.Equal(t, "id.example.com", to.Host)
	require.Equal(t,
		"https://timers.example.com/ui/sign-in", to.Query().Get("post_logout_redirect_uri"))
}

// TestSignOutAtTheProvider checks where a viewer who signs out is sent.
func TestSignOutAtTheProvider(t *testing.T) {
	t.Parallel()
	out := func(ends string) apitest.Answer {
		p := newIdentityProvider(t)
		p.endsAt(ends)
		f, _ := withProvider(t, p)
		session := p.signIn(t, f, "root")
		session["Sec-Fetch-Site"] = "same-origin"
		return f.Call(t, http.MethodPost, "/ui/sign-out", "", session)
	}
	a := out("https://id.example.com/logout?a=b")
	require.Equal(t, http.StatusOK, a.Status)
	to, err := url.Parse(strings.TrimPrefix(a.Header.Get("Refresh"), "0; url="))
	require.NoError(t, err)
	require.Equal(t, "id.example.com/logout", to.Host+to.Path)
	require.Equal(t, url.Values{
		"a": {"b"}, "client_id": {"page"},
		"post_logout_redirect_uri": {"http://example.com/ui/sign-in"},
	}, to.Query())
	for _, a := range []apitest.Answer{a, out(""), out("javascript:alert(1)")} {
		c, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
		require.NoError(t, err)
		require.Empty(t, c.Value)
		require.Negative(t, c.MaxAge)
		require.NotContains(t, a.Header.Get("Refresh"), "javascript")
	}
	require.Equal(t, "/ui/sign-in", out("").Header.Get("Location"))
}

// TestUnknownKeysFetchSeldom checks that tokens with key ids that somebody made up do not make the
// api ask the provider each time, and that a new key of the provider is found later.
func TestUnknownKeysFetchSeldom(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	var fetches atomic.Int32
	served := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keys") {
			fetches.Add(1)
		}
		served.ServeHTTP(w, r)
	})
	var later atomic.Int64 // seconds
	o := p.options(t)
	o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Second) }
	provider, err := signin.New(o)
	require.NoError(t, err)
	claims, err := json.Marshal(map[string]any{
		"iss": p.URL, "sub": "u1", "aud": "carillon", "exp": time.Now().Add(time.Hour).Unix(),
	})
	require.NoError(t, err)
	verify := func(kid string) error {
		token := oidctest.SignIDToken(p.key, kid, "RS256", string(claims))
		_, err := provider.Verify(t.Context(), token)
		return err
	}
	for i := range 50 {
		require.Error(t, verify(fmt.Sprint("made up ", i)))
	}
	require.NoError(t, verify("k"))
	require.Equal(t, int32(1), fetches.Load())
	later.Store(11)
	// The library may still give a caller the answer to the one before.
	require.Eventually(t, func() bool {
		require.Error(t, verify("made up"))
		return fetches.Load() > 1
	}, 10*time.Second, time.Millisecond)
	require.Error(t, verify("made up"))
	require.Equal(t, int32(2), fetches.Load())
}

// TestProviderInTrouble checks that callers whom a provider in trouble cannot confirm are told to come
// back, and not that they are refused.
func TestProviderInTrouble(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"fails": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "later", http.StatusBadGateway)
		},
		"answers by a page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"hangs up":          func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIdentityProvider(t)
			var troubled atomic.Pointer[string] // a suffix of paths
			troubled.Store(new("/keys"))
			served := p.Config.Handler
			p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, *troubled.Load()) {
					answer(w, r)
					return
				}
				served.ServeHTTP(w, r)
			})
			f, _ := withProvider(t, p)
			call := func(claims map[string]any) int {
				bearer := apitest.Bearer(p.token(claims))
				return f.Call(t, "GET", "/api/v2/timers?app=shop", "", bearer).Status
			}
			of := map[string]any{"aud": "carillon", "groups": []string{"root"}}
			require.Equal(t, 503, call(of))
			of["aud"] = "another"
			require.Equal(t, 401, call(of), "whatever its signature")

			finish := func() int {
				flow := p.start(t, f)
				query := url.Values{"code": {"the code"}, "state": {p.asked.Get("state")}}
				a, _ := callback(t, f, query, flow)
				return a.Status
			}
			require.Equal(t, 503, finish())
			if name != "answers by a page" { // which says nothing about its trouble
				troubled.Store(new("/token"))
				require.Equal(t, 503, finish())
			}
		})
	}
}

// TestProviderThatDoesNotAnswer checks that callers with keys are served all the same.
func TestProviderThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p := newIdentityProvider(t)
	token := p.token(map[string]any{"aud": "carillon"})
	p.Close()
	f, admin := withProvider(t, p)
	require.Equal(t, 200, f.Call(t, "GET", "/api/v2/keys", "", apitest.Bearer(admin)).Status)
	require.Equal(t, 503, f.Call(t, "GET", "/api/v2/keys", "", apitest.Bearer(token)).Status)
	require.Equal(t, 503, f.Call(t, "GET", "/ui/sign-in/start", "", nil).Status)
	require.Equal(t, 200, f.Call(t, "GET", "/ui/sign-in", "", nil).Status)
}
