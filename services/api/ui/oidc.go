package ui

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/signin"
)

const (
	flowCookie   = "carillon_sign_in"
	flowLength   = 10 * time.Minute
	personLabel  = "carillon_person"
	maxCookie    = 3800 // bytes of a value; browsers keep 4,096 with the name
	callbackPath = Prefix + "/sign-in/callback"
)

// personSession is a session of a person who signed in by the identity provider.
type personSession struct {
	signin.Identity

	BeganMS int64 `json:"began_ms"`
}

// flow is a sign-in that waits for the provider to send the viewer back.
type flow struct {
	signin.Flow

	Next string `json:"next"`
}

// person returns who signed in by the identity provider, or nil. The error says that it is not known
// whether their sessions were ended.
func (p *Page) person(r *http.Request) (*auth.Person, error) {
	s := p.personSession(r)
	if s == nil {
		return nil, nil //nolint:nilnil // nobody
	}
	before, err := p.opts.Ends.Before(r.Context(), s.Subject)
	if err != nil {
		return nil, p.endsUnknown(err)
	}
	if time.UnixMilli(s.BeganMS).Before(before) {
		return nil, nil //nolint:nilnil // nobody
	}
	return p.opts.SignIn.Person(&s.Identity), nil
}

// personSession returns the session of a request by the settings alone, or nil.
func (p *Page) personSession(r *http.Request) *personSession {
	if !p.opts.SignIn.SignsIn() {
		return nil
	}
	plain, err := p.sessions.open(r, sessionCookie, p.personLabel())
	if err != nil {
		return nil
	}
	var s personSession
	if json.Unmarshal(plain, &s) != nil || !p.opts.SignIn.Began(time.UnixMilli(s.BeganMS)) {
		return nil
	}
	return &s
}

// personLabel is the label of sessions of people. A session of another provider's subject does not
// open.
func (p *Page) personLabel() string { return personLabel + " " + p.opts.SignIn.Issuer() }

func (p *Page) endsUnknown(err error) error {
	p.opts.Logger.Warn().Err(err).Msg("not known whether the sessions of a person were ended")
	return &apiError{Status: http.StatusServiceUnavailable}
}

// startSignIn sends the viewer to the identity provider. What must come back is in a cookie that
// lives for minutes and is Lax, because a browser sends no Strict one along from another site.
func startSignIn(q *request) error {
	provider := q.page.opts.SignIn
	to, f, err := provider.Start(q.r.Context(), originOf(q.r)+callbackPath)
	if err != nil {
		return q.refuseSignIn(http.StatusServiceUnavailable, "provider_unavailable", err)
	}
	kept, err := json.Marshal(flow{*f, inside(q.r.URL.Query().Get("next"))})
	if err != nil {
		return err //nolint:wrapcheck // texts are JSON
	}
	sealed := q.page.sessions.seal(flowCookie, flowLength, kept)
	setCookieOf(q.w, q.r, &http.Cookie{ //nolint:gosec // the rest is set there
		Name: flowCookie, Value: sealed, Path: Prefix + "/sign-in",
		MaxAge: int(flowLength.Seconds()), SameSite: http.SameSiteLaxMode,
	})
	q.redirect(to)
	return nil
}

// originOf returns the page's own idea of its origin.
func originOf(r *http.Request) string {
	if overTLS(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// finishSignIn starts the session of a viewer whom the provider sent back. The next page is opened
// by this page and not by a redirect: to a browser a redirect is still from the provider's site, and
// the session's cookie would stay behind.
func finishSignIn(q *request) error {
	query := q.r.URL.Query()
	plain, err := q.page.sessions.open(q.r, flowCookie, flowCookie)
	setCookieOf(q.w, q.r, &http.Cookie{ //nolint:gosec // the rest is set there
		Name: flowCookie, Path: Prefix + "/sign-in", MaxAge: -1, SameSite: http.SameSiteLaxMode,
	})
	var f flow
	if err != nil || json.Unmarshal(plain, &f) != nil ||
		subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(f.State)) != 1 {
		return q.refuseSignIn(http.StatusBadRequest, "sign_in_again", err)
	}
	if query.Get("error") != "" {
		return q.refuseSignIn(http.StatusForbidden, "provider_refused", nil)
	}
	provider := q.page.opts.SignIn
	identity, err := provider.Finish(q.r.Context(), &f.Flow, query.Get("code"))
	switch {
	case timer.CodeOf(err) == timer.CodeUnavailable:
		return q.refuseSignIn(http.StatusServiceUnavailable, "provider_unavailable", err)
	case err != nil:
		return q.refuseSignIn(http.StatusForbidden, "provider_refused", err)
	}
	if provider.Person(identity).Greatest() == "" {
		return q.refuseSignIn(http.StatusForbidden, "no_role", fmt.Errorf(
			"no group of %q has a role: compare oidc-roles and oidc-groups-claim", identity.Subject,
		))
	}
	// Its sessions may have been ended a moment ago, by a clock that is ahead of this one.
	ended, err := q.page.opts.Ends.Now(q.r.Context(), identity.Subject)
	if err != nil {
		return q.page.endsUnknown(err)
	}
	began := max(q.page.opts.Now().UnixMilli(), ended.UnixMilli())
	kept, err := json.Marshal(personSession{*identity, began})
	if err != nil {
		return err //nolint:wrapcheck // texts are JSON
	}
	sealed := q.page.sessions.seal(q.page.personLabel(), provider.Length(), kept)
	if len(sealed) > maxCookie {
		return q.refuseSignIn(http.StatusForbidden, "too_many_groups", nil)
	}
	setCookie(q.w, q.r, sessionCookie, sealed, provider.Length())
	q.forget()
	q.w.Header().Set("Refresh", "0; url="+f.Next)
	return q.show("signedin", f.Next)
}

// refuseSignIn shows the sign-in again with the reason in words. The provider's error is only
// logged: it may tell a stranger about the deployment.
func (q *request) refuseSignIn(status int, why string, err error) error {
	q.page.opts.Logger.Warn().Err(err).Str("reason", why).Msg("sign-in refused")
	return q.render(status, "signin", &signInData{
		Next: Prefix + "/", Why: why, Provider: true,
	})
}
