package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
)

const (
	callTimeout = 10 * time.Second // of a call of the provider
	endTimeout  = 3 * time.Second  // of a viewer who signs out and waits for the provider
	retryAfter  = 5 * time.Second  // a failed discovery
	askAgain    = time.Hour        // after a discovery, as providers move their endpoints
)

// Options are the settings of a Provider.
type Options struct {
	Issuer   string
	ClientID string
	Secret   string // of the client; empty: it is a public one
	// Audience is that of the tokens by which machines call the API; empty: they use keys only. It
	// differs from ClientID, so that nobody calls the API by a token that only proves a sign-in.
	Audience    string
	GroupsClaim string
	Scopes      []string // requested at a sign-in
	Rules       []Rule
	RedirectURL string // of the page's callback; empty: by the request's host
	// Length is how long a session lasts, and Since is the instant before which none began.
	Length time.Duration
	Since  time.Time
	Now    func() time.Time
}

// Provider is an identity provider. It is asked about itself when it is first needed: so the API
// starts without it, and serves callers with keys.
type Provider struct {
	opts   Options
	client *http.Client
	keys   *keyFetches

	asking singleflight.Group
	latest atomic.Pointer[discovery] // nil: the provider was not asked yet
}

// discovery is what the provider told about itself, or why it told nothing.
type discovery struct {
	*oidc.Provider

	machines *oidc.IDTokenVerifier // of the tokens of machines
	unsigned *oidc.IDTokenVerifier // of all but their signatures
	told     answer
	at       time.Time
	err      error
}

// answer is what counts of a provider's answer.
type answer struct {
	endpoint   oauth2.Endpoint
	keys, ends string // jwks_uri and end_session_endpoint; empty: the provider has none
}

// New returns a provider. It calls nobody.
func New(o Options) (*Provider, error) {
	c := options.Of("signin")
	c.Need("Issuer", o.Issuer == "")
	c.Need("Now", o.Now == nil)
	c.Refuse(
		o.Audience != "" && o.Audience == o.ClientID,
		"Audience: expected another than ClientID",
	)
	c.Refuse(o.Length > store.MaxSignIn, "Length: expected at most "+store.MaxSignIn.String())
	keys := &keyFetches{next: http.DefaultTransport, now: o.Now}
	client := &http.Client{Timeout: callTimeout, Transport: keys}
	return &Provider{opts: o, client: client, keys: keys}, c.Err()
}

// SignsIn returns whether people sign in by the provider. Otherwise only machines are known by it.
func (p *Provider) SignsIn() bool { return p != nil && p.opts.ClientID != "" }

// Issuer returns the URL of the provider. Subjects of persons are unique there only.
func (p *Provider) Issuer() string { return p.opts.Issuer }

// Length returns how long a session lasts.
func (p *Provider) Length() time.Duration { return p.opts.Length }

// Began returns whether a session that began at an instant may still count: by the present settings,
// which may be stricter than those at its beginning.
func (p *Provider) Began(at time.Time) bool {
	return !at.Before(p.opts.Since) && p.opts.Now().Before(at.Add(p.opts.Length))
}

func (p *Provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// discover returns the provider's endpoints and keys. Callers at once ask together, and none waits
// longer than its context. A caller that leaves does not stop the others. Nobody waits for a renewal.
func (p *Provider) discover(ctx context.Context) (*discovery, error) {
	latest := p.latest.Load()
	known := latest != nil && latest.err == nil
	if latest != nil {
		lasts := retryAfter
		if known {
			lasts = askAgain
		}
		if age := p.opts.Now().Sub(latest.at); age >= 0 && age < lasts {
			return latest, latest.err
		}
	}
	asked := p.asking.DoChan("", func() (any, error) {
		d := p.ask(context.WithoutCancel(ctx))
		if known && (d.err != nil || d.told == latest.told) { // with the keys fetched before
			kept := *latest
			if kept.at = d.at; d.err != nil {
				kept.at = d.at.Add(retryAfter - askAgain)
			}
			d = &kept
		}
		p.latest.Store(d)
		return d, d.err
	})
	if known {
		return latest, nil
	}
	select {
	case a := <-asked:
		d, _ := a.Val.(*discovery)
		return d, a.Err //nolint:wrapcheck // it says what it was doing
	case <-ctx.Done():
		return nil, timer.Unavailable("asking the identity provider", context.Cause(ctx))
	}
}

func (p *Provider) ask(ctx context.Context) *discovery {
	d := &discovery{}
	found, err := oidc.NewProvider(p.context(ctx), p.opts.Issuer)
	if d.at = p.opts.Now(); err != nil {
		d.err = timer.Unavailable(
			"asking the identity provider "+p.opts.Issuer+" (oidc-issuer)",
			err,
		)
		return d
	}
	var told struct {
		Keys string `json:"jwks_uri"`
		Ends string `json:"end_session_endpoint"`
	}
	if err := found.Claims(&told); err == nil {
		p.keys.url.Store(&told.Keys)
	}
	d.told = answer{found.Endpoint(), told.Keys, told.Ends}
	d.Provider = found
	of := oidc.Config{ClientID: p.opts.Audience, Now: p.opts.Now}
	d.machines = found.Verifier(&of)
	of.InsecureSkipSignatureCheck = true
	d.unsigned = found.Verifier(&of)
	return d
}

// Flow is what a sign-in must keep until the provider sends the viewer back.
type Flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Redirect string `json:"redirect"`
}

// Start returns where to send the viewer. callback is the page's own idea of its address.
func (p *Provider) Start(ctx context.Context, callback string) (string, *Flow, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	f := &Flow{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(),
		Verifier: oauth2.GenerateVerifier(), Redirect: callback,
	}
	if p.opts.RedirectURL != "" {
		f.Redirect = p.opts.RedirectURL
	}
	return p.config(found, f).AuthCodeURL(
		f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier),
	), f, nil
}

// EndSession returns where the viewer's session at the provider is ended, and from where they come
// back to a path of the page. It is empty where the provider has no such address, or does not answer
// within endTimeout: this process may not have asked it yet. The provider asks the viewer whether to,
// because it gets no token of the session. origin is the page's own idea of where it is; that of the
// setting, which the provider knows, comes first.
func (p *Provider) EndSession(ctx context.Context, origin, path string) string {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	d, err := p.discover(ctx)
	if err != nil || d.told.ends == "" {
		return ""
	}
	if set, err := url.Parse(p.opts.RedirectURL); err == nil && set.Host != "" {
		origin = set.Scheme + "://" + set.Host
	}
	to, err := url.Parse(d.told.ends)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" {
		return ""
	}
	query := to.Query()
	query.Set("client_id", p.opts.ClientID)
	query.Set("post_logout_redirect_uri", origin+path)
	to.RawQuery = query.Encode()
	return to.String()
}

func (p *Provider) config(found *discovery, f *Flow) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.opts.ClientID, ClientSecret: p.opts.Secret, Endpoint: found.Endpoint(),
		RedirectURL: f.Redirect, Scopes: p.opts.Scopes,
	}
}

// answered says of an error of a call whether the provider refused it, or did not answer: then its
// code is unavailable.
func answered(doing string, err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	failing := ok && answer.Response.StatusCode >= http.StatusInternalServerError
	if _, silent := errors.AsType[*url.Error](err); silent || failing {
		return timer.Unavailable(doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Finish returns who signed in, by the code that the provider gave. The caller has compared the
// state of the flow. The error has code unavailable if the provider does not answer.
func (p *Provider) Finish(ctx context.Context, f *Flow, code string) (*Identity, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = p.context(ctx)
	config := p.config(found, f)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return nil, answered("exchanging the code of a sign-in", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.opts.ClientID, Now: p.opts.Now}).
		Verify(ctx, raw)
	if err != nil && p.keys.failed() {
		return nil, timer.Unavailable("fetching the identity provider's keys", err)
	}
	if err != nil {
		return nil, fmt.Errorf("verifying the token of a sign-in: %w", err)
	}
	if id.Subject == "" {
		return nil, errors.New("verifying the token of a sign-in: it has no sub")
	}
	if id.Nonce != f.Nonce {
		return nil, errors.New("verifying the token of a sign-in: another nonce")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, fmt.Errorf("reading the token of a sign-in: %w", err)
	}
	if by, there := claims["azp"].(string); there && by != p.opts.ClientID {
		return nil, fmt.Errorf(
			"verifying the token of a sign-in: expected azp %q got %q", p.opts.ClientID, by,
		)
	}
	if _, there := claims[p.opts.GroupsClaim]; !there && found.UserInfoEndpoint() != "" {
		info, err := found.UserInfo(ctx, config.TokenSource(ctx, token))
		if err != nil {
			return nil, answered("asking for the groups of a person", err)
		}
		if info.Subject != id.Subject {
			return nil, errors.New("asking for the groups of a person: an answer about another")
		}
		if err := info.Claims(&claims); err != nil {
			return nil, fmt.Errorf("reading the groups of a person: %w", err)
		}
	}
	return p.identity(id.Subject, claims), nil
}

// Verify returns whom a token of a machine stands for. The error is of a token that is not valid,
// or has code unavailable.
func (p *Provider) Verify(ctx context.Context, text string) (*auth.Person, error) {
	if p.opts.Audience == "" {
		return nil, errors.New("no tokens are accepted")
	}
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := found.machines.Verify(p.context(ctx), text)
	if err != nil {
		if _, other := found.unsigned.Verify(ctx, text); other == nil && p.keys.failed() {
			return nil, timer.Unavailable("fetching the identity provider's keys", err)
		}
		return nil, fmt.Errorf("verifying a token: %w", err)
	}
	if token.Subject == "" {
		return nil, errors.New("verifying a token: it has no sub, which the audit trail needs")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	return p.Person(p.identity(token.Subject, claims)), nil
}

// identity reads the claims about a person. Groups without a rule are left out, because sessions
// are in cookies.
func (p *Provider) identity(subject string, claims map[string]any) *Identity {
	i := &Identity{Subject: subject}
	for _, c := range []string{"name", "preferred_username", "email", "client_id"} {
		if name, _ := claims[c].(string); i.Name == "" {
			i.Name = name
		}
	}
	var groups []any
	switch g := claims[p.opts.GroupsClaim].(type) {
	case []any:
		groups = g
	case string:
		groups = []any{g}
	}
	for _, g := range groups {
		name, _ := g.(string)
		named := func(r Rule) bool { return r.Group == name }
		if slices.ContainsFunc(p.opts.Rules, named) && !slices.Contains(i.Groups, name) {
			i.Groups = append(i.Groups, name)
		}
	}
	return i
}
