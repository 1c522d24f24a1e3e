package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Auth says who may call the API. The zero value admits callers with a key from the store.
type Auth struct {
	Off   bool         // every caller may do everything
	Admin *apikey.Hash // hash of the deployment's first admin key; nil: there is none
	Keys  Keys         // keys from a file, in addition to those in the store; nil: none

	// TrustHeader is the header by which a gateway names the caller. Its value is "<app>" (scope
	// write), or "read:<app>", "write:<app>" or "admin:<app>". An app with a ":" in its name needs
	// the second form. Any other value with a ":" is refused. The API reads the header only on
	// connections from TrustFrom. The gateway must remove it from the requests of its own callers.
	// Empty: none.
	TrustHeader string
	TrustFrom   []netip.Prefix
}

// caller identifies the caller of a request and what it may do.
type caller struct {
	deployment bool // may act for every app
	app        string
	scope      apikey.Scope
	// keyID is the public part of the key. It is empty for callers named by a gateway and for keys
	// from a file.
	keyID string
}

type callerKey struct{}

// callerOf returns the caller of a request. The zero caller, which no route admits, may do nothing.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// Reasons for denied requests, as the metric reports them.
const (
	deniedNoKey     = "no_key"
	deniedMalformed = "malformed" // not a key at all: a typing error, or a guess
	deniedUnknown   = "unknown"
	deniedRevoked   = "revoked"
	deniedScope     = "scope"
	deniedApp       = "app" // a key of another app
	deniedToken     = "token"
	deniedCallback  = "callback" // a timer called the API
)

// denial is the error of a denied request. id is the public part of its key, or empty.
type denial struct{ reason, id string }

func (d *denial) Error() string { return errNoKey.Error() }

// authenticate admits requests with a valid key. Requests hold a slot of their own while their key
// is looked up. When the store hangs, only these slots fill up, and callers with a cached key are
// still served. The body is not read before.
func (s *Service) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.authenticating.tryAcquire() {
			tooMany(w, r)
			return
		}
		c, err := func() (caller, error) {
			defer s.authenticating.release()
			return s.identify(r)
		}()
		if d, ok := err.(*denial); ok { //nolint:errorlint // identify wraps none
			s.recordDenied(r.Context(), d.reason, d.id)
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, fault{status: http.StatusUnauthorized, msg: errNoKey.Error()})
			return
		}
		if err != nil {
			refuse(w, r, s.faultOf(err, http.StatusUnprocessableEntity))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// WithKey requires a valid key, of any scope and app, before h. Where no keys are required, it
// admits every caller.
func (s *Service) WithKey(h http.Handler) http.Handler { return s.limitRequest(s.authenticate(h)) }

// rejectCallbacks refuses requests that a timer makes. The executor in this process never dials
// this listener. The check covers executors of other processes and hosts, and translated addresses.
func (s *Service) rejectCallbacks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if egress.IsCallback(r) {
			s.recordDenied(r.Context(), deniedCallback, "")
			refuse(
				w,
				r,
				fault{
					status: http.StatusForbidden,
					msg:    "a timer's callback may not call Carillon itself",
				},
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// remoteKey is the context key of the request's remote address.
type remoteKey struct{}

// identify returns the caller. The error is a *denial, or says that the store is unavailable.
func (s *Service) identify(r *http.Request) (caller, error) {
	a := &s.opts.Auth
	if a.Off {
		return caller{deployment: true, scope: apikey.Admin}, nil
	}
	if identity, ok := a.gatewayIdentity(r); ok {
		c, err := parseGatewayIdentity(identity)
		if err != nil {
			return caller{}, &denial{reason: deniedMalformed}
		}
		return c, nil
	}
	text, ok := bearer(r)
	if !ok {
		return caller{}, &denial{reason: deniedNoKey}
	}
	if app, ok := a.Keys.app(text); ok {
		return caller{app: app, scope: apikey.Write}, nil
	}
	key, err := apikey.Parse(text)
	if err != nil {
		return caller{}, &denial{reason: deniedMalformed}
	}
	if a.Admin != nil && key.Matches(*a.Admin) {
		return caller{deployment: true, scope: apikey.Admin, keyID: key.ID()}, nil
	}
	return s.keys.identify(r.Context(), key)
}

func bearer(r *http.Request) (string, bool) {
	const scheme = "bearer "
	h := r.Header.Get("Authorization")
	if len(h) < len(scheme) || !strings.EqualFold(h[:len(scheme)], scheme) {
		return "", false
	}
	text := strings.TrimSpace(h[len(scheme):])
	return text, text != ""
}

// gatewayIdentity returns the value of the trusted header. A header sent twice is ignored, because
// one of the two may come from the gateway's own caller.
func (a *Auth) gatewayIdentity(r *http.Request) (string, bool) {
	if a.TrustHeader == "" {
		return "", false
	}
	values := r.Header.Values(a.TrustHeader)
	if len(values) != 1 || values[0] == "" || !a.fromTrusted(r.RemoteAddr) {
		return "", false
	}
	return values[0], true
}

// parseGatewayIdentity parses the value of the trusted header. An unknown scope is an error and
// never part of an app's name: otherwise a scope below write would become write.
func parseGatewayIdentity(identity string) (caller, error) {
	scope, app, two := strings.Cut(identity, ":")
	if !two {
		return caller{app: identity, scope: apikey.Write}, nil
	}
	sc, err := apikey.ParseScope(scope)
	if err == nil && app == "" {
		err = errors.New("names no app")
	}
	return caller{app: app, scope: sc}, err
}

func (a *Auth) fromTrusted(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap().WithZone("")
	for _, p := range a.TrustFrom {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// authorizeApp checks that the caller may act for an app. For another app the error is not_found,
// whether the app exists or not.
func (s *Service) authorizeApp(ctx context.Context, app string) error {
	c := callerOf(ctx)
	if c.deployment || c.app == app && app != "" {
		return nil
	}
	s.recordDenied(ctx, deniedApp, c.keyID)
	return appNotFound(app)
}

func appNotFound(app string) error {
	return &timer.Error{Code: timer.CodeNotFound, Msg: fmt.Sprintf("no app %q", app)}
}

// requireScope checks the scope of the caller's key.
func (s *Service) requireScope(ctx context.Context, scope apikey.Scope) error {
	c := callerOf(ctx)
	if c.scope.Includes(scope) {
		return nil
	}
	s.recordDenied(ctx, deniedScope, c.keyID)
	return &scopeError{scope}
}

// scopeError says that the key lacks a scope.
type scopeError struct{ needed apikey.Scope }

func (e *scopeError) Error() string {
	return fmt.Sprintf("this needs a key of scope %s", e.needed)
}

// recordDenied counts and logs a denied request. It logs only the public id of the key, and only
// some lines a second.
func (s *Service) recordDenied(ctx context.Context, reason, id string) {
	s.metrics.denied.WithLabelValues(reason).Inc()
	remote, _ := ctx.Value(remoteKey{}).(string)
	s.denials.Warn().
		Str("reason", reason).
		Str("key_id", id).
		Str("remote", remote).
		Msg("request denied")
}

// rateLimited returns a logger that writes at most 10 lines a second, for events that any request
// can cause.
func rateLimited(log zerolog.Logger) zerolog.Logger {
	const perSecond = 10
	return log.Sample(&zerolog.BurstSampler{Burst: perSecond, Period: time.Second})
}
