package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// oracleProvider is an identity provider of others. It has the client page, and the people
// oncall-ada and stranger-eve in the groups oncall and stranger.
type oracleProvider struct {
	issuer string
	scopes []string // of a sign-in
	// tokenRequest returns the client credentials of a machine of the group oncall, and the form by
	// which it asks for a token for an audience.
	tokenRequest func(audience string) (client, secret string, form url.Values)
}

// startOpenID runs a provider that the OpenID Foundation has certified.
func startOpenID(t *testing.T, page string) *oracleProvider {
	t.Helper()
	p := testenv.StartOpenID(t)
	p.Serve(t, page)
	return &oracleProvider{
		issuer: p.Issuer,
		scopes: []string{"openid", "profile", "groups"},
		tokenRequest: func(audience string) (client, secret string, form url.Values) {
			return "job", "the secret of the job", url.Values{"resource": {"urn:" + audience}}
		},
	}
}

// TestSignInByProvidersOfOthers signs in as a browser does, with a jar of cookies, and calls the API
// as machines do.
func TestSignInByProvidersOfOthers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, page string) *oracleProvider{
		"oidc-provider": startOpenID,
		"Keycloak":      startKeycloak,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.OpenIDOracles(t)
			s := newOracleSuite(t, start)
			s.signsIn(t)
			s.refusesStrangers(t)
			s.endsSessions(t)
			s.signsOut(t)
			s.knowsMachines(t)
		})
	}
}

// oracleSuite is an API whose page is signed in to by a provider of others.
type oracleSuite struct {
	*apitest.Fixture
	*oracleProvider

	page  string // origin
	timer string // path of a timer on the page
	admin string // key
}

func newOracleSuite(
	t *testing.T, start func(t *testing.T, page string) *oracleProvider,
) *oracleSuite {
	t.Helper()
	s := new(oracleSuite)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Api.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.page = server.URL
	s.oracleProvider = start(t, s.page)
	provider, err := signin.New(signin.Options{
		Issuer: s.issuer, ClientID: "page", Secret: "the secret of the page",
		Audience: "carillon", GroupsClaim: "groups", Scopes: s.scopes,
		Length: time.Hour, Now: time.Now,
		Rules: []signin.Rule{{Group: "oncall", App: "shop", Scope: "operate"}},
	})
	require.NoError(t, err)
	s.Fixture, s.admin = apitest.Guarded(t, func(a *api.Options) {
		a.Page, a.SignIn, a.Auth.Tokens = true, provider, provider
	})
	s.timer = s.ShopsOwn(t, s.admin).Replace("/ui/apps/shop/timers/<timer>")
	return s
}

func (s *oracleSuite) signsIn(t *testing.T) {
	t.Helper()
	p := newPerson(t)
	p.signIn(s, "oncall-ada")
	require.Equal(t, "0; url="+s.timer, p.header.Get("Refresh"), p.body)
	p.visit(http.MethodGet, s.page+s.timer, nil)
	require.Equal(t, http.StatusOK, p.status, p.body)
	require.Contains(t, p.body, "the oncall-ada")
	require.Contains(t, p.body, s.timer+"/run")
	require.NotContains(t, p.body, s.timer+"/edit")
}

func (s *oracleSuite) refusesStrangers(t *testing.T) {
	t.Helper()
	p := newPerson(t)
	p.signIn(s, "stranger-eve")
	require.Equal(t, http.StatusForbidden, p.status, p.body)
	require.Contains(t, p.body, "no role here")
	p.visit(http.MethodGet, s.page+s.timer, nil)
	require.Equal(t, "/ui/sign-in", p.at.Path)
}

// endsSessions ends those of a person by the id that the audit trail has of them.
func (s *oracleSuite) endsSessions(t *testing.T) {
	t.Helper()
	p := newPerson(t)
	p.signIn(s, "oncall-ada")
	p.visit(http.MethodPost, s.page+s.timer+"/run", nil)
	require.Equal(t, http.StatusOK, p.status, p.body)
	var trail struct {
		Items []struct {
			Actor struct{ Kind, ID, Name string }
		}
	}
	s.Call(t, http.MethodGet, "/api/v2/apps/shop/audit?limit=1", "", apitest.Bearer(s.admin)).
		Into(t, http.StatusOK, &trail)
	ada := trail.Items[0].Actor
	require.Equal(t, "person", ada.Kind)
	require.Equal(t, "the oncall-ada", ada.Name)
	body, err := json.Marshal(map[string]string{"subject": ada.ID})
	require.NoError(t, err)
	s.Call(t, http.MethodPost, "/api/v2/people/end-sessions", string(body),
		apitest.Bearer(s.admin)).Into(t, http.StatusOK, new(struct{}))
	p.visit(http.MethodGet, s.page+s.timer, nil)
	require.Equal(t, "/ui/sign-in", p.at.Path)
	// The provider's own session goes on: it sends the person back without a form.
	p.visit(http.MethodGet, s.page+"/ui/sign-in/start", nil)
	require.Equal(t, http.StatusOK, p.status, p.body)
	p.visit(http.MethodGet, s.page+s.timer, nil)
	require.Equal(t, s.timer, p.at.Path)
}

// signsOut ends the session here and at the provider, which then asks for the password again.
func (s *oracleSuite) signsOut(t *testing.T) {
	t.Helper()
	p := newPerson(t)
	p.signIn(s, "oncall-ada")
	p.visit(http.MethodPost, s.page+"/ui/sign-out", nil)
	to, found := strings.CutPrefix(
		p.header.Get("Refresh"),
		"0; url="+strings.TrimSuffix(s.issuer, "/"),
	)
	require.True(t, found, p.header)
	p.visit(http.MethodGet, s.issuer+to, nil)
	p.submit(url.Values{"logout": {"yes"}, "confirmLogout": {"Logout"}})
	require.Equal(t, s.page+"/ui/sign-in", p.at.Scheme+"://"+p.at.Host+p.at.Path, p.body)
	p.visit(http.MethodGet, s.page+s.timer, nil)
	require.Equal(t, "/ui/sign-in", p.at.Path)
	p.visit(http.MethodGet, s.page+"/ui/sign-in/start", nil)
	require.NotEqual(t, s.page, p.at.Scheme+"://"+p.at.Host)
	require.Contains(t, p.fields(), "password")
}

// knowsMachines calls the API by tokens that machines get for themselves.
func (s *oracleSuite) knowsMachines(t *testing.T) {
	t.Helper()
	timer := strings.TrimPrefix(s.timer, "/ui/apps/shop")
	call := func(token, method, path, body string) int {
		return s.Call(t, method, "/api/v2"+path, body, apitest.Bearer(token)).Status
	}
	good := s.token(t, "carillon")
	require.Equal(t, http.StatusOK, call(good, http.MethodGet, timer+"?app=shop", ""))
	require.Equal(t, http.StatusForbidden, call(good, http.MethodDelete, timer+"?app=shop", ""))
	require.Equal(t, http.StatusNotFound, call(good, http.MethodGet, "/timers?app=desk", ""))
	require.Equal(t, http.StatusUnauthorized,
		call(s.token(t, "another"), http.MethodGet, timer+"?app=shop", ""))
	require.Equal(t, http.StatusUnauthorized,
		call(good[:len(good)-8]+"AAAAAAAA", http.MethodGet, timer+"?app=shop", ""))
}

// token gets a token by client credentials.
func (s *oracleSuite) token(t *testing.T, audience string) string {
	t.Helper()
	p := newPerson(t)
	var about struct {
		Endpoint string `json:"token_endpoint"`
	}
	p.visit(http.MethodGet, s.issuer+"/.well-known/openid-configuration", nil)
	require.NoError(t, json.Unmarshal([]byte(p.body), &about), p.body)
	client, secret, form := s.tokenRequest(audience)
	form.Set("grant_type", "client_credentials")
	r, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, about.Endpoint, strings.NewReader(form.Encode()),
	)
	require.NoError(t, err)
	r.SetBasicAuth(url.QueryEscape(client), url.QueryEscape(secret))
	p.send(r)
	var got struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.body), &got), p.body)
	require.Equal(t, 2, strings.Count(got.Token, "."), p.body)
	return got.Token
}

// person has a browser without scripts, and the page that it shows.
type person struct {
	t       *testing.T
	browser *http.Client

	at     *url.URL
	status int
	header http.Header
	body   string
}

// jar also sends secure cookies to this host over HTTP, as browsers do.
type jar struct{ http.CookieJar }

func (j jar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		c.Secure = false
	}
	j.CookieJar.SetCookies(u, cookies)
}

func newPerson(t *testing.T) *person {
	t.Helper()
	cookies, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &person{t: t, browser: &http.Client{Jar: jar{cookies}, Timeout: time.Minute}}
}

// signIn follows the provider through its forms, until it leads back to the page.
func (p *person) signIn(s *oracleSuite, name string) {
	p.t.Helper()
	p.visit(http.MethodGet, s.page+"/ui/sign-in/start?next="+s.timer, nil)
	for range 3 {
		if p.at.Scheme+"://"+p.at.Host == s.page {
			return
		}
		p.submit(url.Values{"login": {name}, "username": {name}, "password": {"x"}})
	}
	require.Fail(p.t, "the provider does not lead back", p.body)
}

func (p *person) visit(method, to string, form url.Values) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(
		p.t.Context(),
		method,
		to,
		strings.NewReader(form.Encode()),
	)
	require.NoError(p.t, err)
	p.send(r)
}

func (p *person) send(r *http.Request) {
	p.t.Helper()
	if r.Method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a, err := p.browser.Do(r)
	require.NoError(p.t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	require.NoError(p.t, err)
	p.at, p.status, p.header, p.body = a.Request.URL, a.StatusCode, a.Header, string(b)
}

// submit fills in the form of the page and sends it. It enters what the form has a field for.
func (p *person) submit(entries url.Values) {
	p.t.Helper()
	require.Equal(p.t, http.StatusOK, p.status, p.body)
	form := p.fields()
	for name, values := range entries {
		if form.Has(name) {
			form[name] = values
		}
	}
	to, err := p.at.Parse(form.Get("\x00action"))
	require.NoError(p.t, err)
	form.Del("\x00action")
	p.visit(http.MethodPost, to.String(), form)
}

// fields returns the fields of the page with their values, and where its form is sent.
func (p *person) fields() url.Values {
	p.t.Helper()
	doc, err := html.Parse(strings.NewReader(p.body))
	require.NoError(p.t, err)
	form := url.Values{}
	for n := range doc.Descendants() {
		attributes := map[string]string{}
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
		}
		switch name := attributes["name"]; {
		case n.Data == "form":
			form.Set("\x00action", attributes["action"])
		case name != "" && (n.Data == "input" || n.Data == "button"):
			form.Set(name, attributes["value"])
		}
	}
	return form
}
