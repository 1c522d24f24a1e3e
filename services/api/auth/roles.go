package auth

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/problem"
)

// Person is a caller known to an identity provider, with the roles that the provider's groups give.
// It does not change once it calls.
type Person struct {
	Subject string // the provider's id of the person
	Name    string // for people
	All     apikey.Scope
	Apps    map[string]apikey.Scope
}

// scopeOf returns the greatest scope of the person in an app; empty: none.
func (p *Person) scopeOf(app string) apikey.Scope {
	if own := p.Apps[app]; own != "" && !p.All.Includes(own) {
		return own
	}
	return p.All
}

// Greatest returns the greatest scope that the person has in any app; empty: none.
func (p *Person) Greatest() apikey.Scope {
	scope := p.All
	for _, s := range p.Apps {
		if !scope.Includes(s) {
			scope = s
		}
	}
	return scope
}

// Tokens verifies the tokens of an identity provider. Its error has code unavailable if the provider
// does not answer; otherwise the token is not valid.
type Tokens interface {
	Verify(ctx context.Context, text string) (*Person, error)
}

// isToken returns whether a bearer is a JSON Web Token. No key has a dot.
func isToken(text string) bool { return strings.Count(text, ".") == 2 }

func identifyToken(ctx context.Context, t Tokens, text string) (caller, error) {
	p, err := t.Verify(ctx, text)
	switch {
	case err == nil:
		return caller{person: p, kind: store.ActorPerson}, nil
	case timer.CodeOf(err) == timer.CodeUnavailable:
		return caller{}, err //nolint:wrapcheck // it says what it was doing
	}
	return caller{}, &denial{reason: deniedInvalid, cause: err}
}

type personKey struct{}

// WithPerson makes requests of the context those of a person. Only code of this process can set it:
// no request from outside carries a context.
func WithPerson(ctx context.Context, p *Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

func personOf(ctx context.Context) *Person {
	p, _ := ctx.Value(personKey{}).(*Person)
	return p
}

// scopeOf returns what the caller may do in an app; empty: nothing.
func (c *caller) scopeOf(app string) apikey.Scope {
	switch {
	case app == "" && c.scopeOfAll() == "": // nobody's app
		return ""
	case c.person != nil:
		return c.person.scopeOf(app)
	case c.deployment || c.app == app:
		return c.scope
	}
	return ""
}

// scopeOfAll returns what the caller may do in every app and in the deployment; empty: nothing.
func (c *caller) scopeOfAll() apikey.Scope {
	switch {
	case c.person != nil:
		return c.person.All
	case c.deployment:
		return c.scope
	}
	return ""
}

// OfDeployment returns whether the caller may see every app.
func OfDeployment(ctx context.Context) bool {
	c := callerOf(ctx)
	return c.scopeOfAll() != ""
}

// AdminOfDeployment returns whether the caller manages every app.
func AdminOfDeployment(ctx context.Context) bool {
	c := callerOf(ctx)
	return c.scopeOfAll().Includes(apikey.Admin)
}

// AppsOf returns the names of the caller's own apps, in order; none for a key of the deployment.
func AppsOf(ctx context.Context) []string {
	switch c := callerOf(ctx); {
	case c.person != nil:
		return slices.Sorted(maps.Keys(c.person.Apps))
	case c.app != "":
		return []string{c.app}
	}
	return nil
}

// ScopeIn returns the caller's scope in an app. Without an app it is that of a key, or the one that
// a person has in every app.
func ScopeIn(ctx context.Context, app string) apikey.Scope {
	c := callerOf(ctx)
	switch {
	case app != "":
		return c.scopeOf(app)
	case c.person != nil:
		return c.person.All
	}
	return c.scope
}

// NameOf returns the name of a person; empty for other callers.
func NameOf(ctx context.Context) string {
	if p := callerOf(ctx).person; p != nil {
		return p.Name
	}
	return ""
}

type scopeKey struct{}

// neededScope returns the scope that the route needs. A route that named none needs the greatest.
func neededScope(ctx context.Context) apikey.Scope {
	if s, ok := ctx.Value(scopeKey{}).(apikey.Scope); ok {
		return s
	}
	return apikey.Admin
}

// RequireScope checks that the caller has a scope in some app, and returns the context with which
// AuthorizeApp checks it in the app that the request is about.
func (k *Checker) RequireScope(
	ctx context.Context, scope apikey.Scope,
) (context.Context, error) {
	c := callerOf(ctx)
	have := c.scope
	if c.person != nil {
		have = c.person.Greatest()
	}
	return context.WithValue(ctx, scopeKey{}, scope), k.require(ctx, have, scope)
}

// RequireScopeOf checks the caller's scope in an app, where a request needs more than its route.
func (k *Checker) RequireScopeOf(ctx context.Context, app string, scope apikey.Scope) error {
	c := callerOf(ctx)
	return k.require(ctx, c.scopeOf(app), scope)
}

func (k *Checker) require(ctx context.Context, have, needed apikey.Scope) error {
	if have.Includes(needed) {
		return nil
	}
	k.RecordDenied(ctx, deniedScope, callerOf(ctx).keyID)
	return &problem.ScopeError{Needed: needed}
}
