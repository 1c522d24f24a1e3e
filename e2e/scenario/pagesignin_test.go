package scenario

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/browser"
	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestPageSignsInByProvider signs people in at the forms of an identity provider of others. They see
// and do what their roles allow, until they sign out or an administrator ends their sessions.
func TestPageSignsInByProvider(t *testing.T) {
	t.Parallel()
	r := runnerNamed("allinone")
	t.Run(r.name, func(t *testing.T) {
		t.Parallel()
		provider := testenv.StartOpenID(t)
		settings := map[string]string{
			"CARILLON_OIDC_ISSUER":        provider.Issuer,
			"CARILLON_OIDC_CLIENT_ID":     "page",
			"CARILLON_OIDC_CLIENT_SECRET": "the secret of the page",
			"CARILLON_OIDC_SCOPES":        "openid,profile,groups",
			"CARILLON_OIDC_ROLES":         "viewers=viewer@*,operators=operator@*,admins=admin@*",
		}
		runOnOwn(t, r, cluster.Options{Env: settings}, func(t *testing.T, env *environment) {
			// By this name the page is another site than the provider.
			page := strings.Replace(env.API(), "127.0.0.1", "localhost", 1)
			provider.Serve(t, page)
			b := browser.Start(t)
			id := env.active(t, "mine", client.Cron("0 0 1 1 *"), "/never")
			for _, p := range []person{
				{name: "viewers-vera", role: "viewer"},
				{name: "operators-otto", role: "operator"},
				{name: "admins-ada", role: "admin"},
			} {
				p.viewer = viewer{b.Open(t, page), env}
				p.signsIn(t)
				p.seesTheRole(t, id)
				p.signsOut(t)
			}
			ada := person{viewer: viewer{b.Open(t, page), env}, name: "admins-ada"}
			otto := person{viewer: viewer{b.Open(t, page), env}, name: "operators-otto"}
			ada.signsIn(t)
			otto.signsIn(t)
			otto.Go(t, otto.app("overview"))
			ada.signsOutOther(t, &otto)
		})
	})
}

// person is a viewer who signs in by the provider.
type person struct {
	viewer

	name, role string
}

// signsIn opens the page, signs in at the provider's own form, and comes back.
func (p *person) signsIn(t *testing.T) {
	t.Helper()
	p.Go(t, p.app("timers"))
	require.Contains(t, p.Path(t), "/ui/sign-in?next=")
	p.check(t)
	p.Follow(t, `a[href^="/ui/sign-in/start"]`)
	p.fillsIn(t)
	p.Await(t, "location.pathname == "+strconv.Quote(p.app("timers")))
	require.Contains(t, p.Text(t, "header"), "the "+p.name)
	p.Complaints() // those of the provider's pages
	p.check(t)
}

// fillsIn fills in the forms of the provider.
func (p *person) fillsIn(t *testing.T) {
	t.Helper()
	require.Contains(t, p.Path(t), "/interaction/", "at the provider")
	p.Fill(t, "input[name=login]", p.name)
	p.Fill(t, "input[name=password]", "x")
	p.Follow(t, "form button")
	p.Await(t, `document.querySelector("input[name=prompt]").value == "consent"`)
	p.Click(t, "form button")
}

// seesTheRole looks at a timer and does what the role allows.
func (p *person) seesTheRole(t *testing.T, id timer.ID) {
	t.Helper()
	p.visit(t, p.app("timers", id.String()))
	pause, edit := `form[action$="/pause"] button`, `a[href$="/edit"]`
	has := func(selector string) bool {
		return p.Is(t, "document.querySelector("+strconv.Quote(selector)+")")
	}
	require.Equal(t, p.role != "viewer", has(pause), p.role)
	require.Equal(t, p.role == "admin", has(edit), p.role)
	if p.role == "viewer" {
		require.True(t, p.Is(t, fmt.Sprintf(`(() => {
			const r = new XMLHttpRequest();
			r.open("POST", %q, false);
			r.send();
			return r.status == 403;
		})()`, p.app("timers", id.String(), "pause"))), "what is not offered is refused")
		p.Complaints() // the status
		return
	}
	p.Follow(t, pause)
	tm, err := p.env.api.Get(t.Context(), p.env.app, id)
	require.NoError(t, err)
	require.Equal(t, "paused", tm.Status)
	p.Follow(t, `form[action$="/resume"] button`)
}

// signsOut signs out here, and at the provider.
func (p *person) signsOut(t *testing.T) {
	t.Helper()
	p.Click(t, `form[action="/ui/sign-out"] button`)
	p.Await(t, `document.querySelector("button[name=logout]")`)
	require.Contains(t, p.Path(t), "/session/end?")
	p.Click(t, "button[name=logout]")
	p.Await(t, `location.pathname == "/ui/sign-in"`)
	p.Go(t, p.app("timers"))
	require.Contains(t, p.Path(t), "/ui/sign-in?next=")
	p.Complaints()
	p.Follow(t, `a[href^="/ui/sign-in/start"]`)
	require.Contains(t, p.Path(t), "/interaction/", "the provider asks again")
	require.True(t, p.Is(t, `document.querySelector("input[name=password]")`))
	p.Complaints()
}

// signsOutOther ends the sessions of another person, whose open page goes to sign in by itself.
func (p *person) signsOutOther(t *testing.T, other *person) {
	t.Helper()
	p.visit(t, "/ui/operations?person="+url.QueryEscape(other.name))
	p.Follow(t, `form[action$="/end-sessions"] button`)
	require.Contains(t, p.Text(t, "main"), "The sessions are ended.")
	p.visit(t, "/ui/operations/audit")
	require.Contains(t, strings.Join(strings.Fields(p.Text(t, "tbody tr")), " "),
		"sessions ended person "+other.name)
	other.Await(t, `location.pathname == "/ui/sign-in"`)
	other.Follow(t, `a[href^="/ui/sign-in/start"]`)
	// The provider still knows them.
	other.Await(t, "location.pathname == "+strconv.Quote(other.app("overview")))
}
