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

// Auth says who may call. The zero value lets in who has a key of the store's.
type Auth struct {
	Off   bool         // whoever reaches the API may do everything
	Admin *apikey.Hash // of the deployment's first admin key; nil: there is none
	Keys  Keys         // of a file, besides those in the store; nil: none

	// TrustHeader names a header by which a gateway says who calls: "<app>", whose scope is write,
	// or "read:<app>", "write:<app>", "admin:<app>"; an app with a ":" in its name needs the second
	// form, and what has a ":" and is not of that form is refused. It is believed of connections
	// that come from TrustFrom, and ignored otherwise. A gateway must remove it from what its own
	// callers send. Empty: none.
	TrustHeader string
	TrustFrom   []netip.Prefix
}

// caller is who calls, and what he may do.
type caller struct {
	deployment bool // every app's
	app        string
	scope      apikey.Scope
	// the public part of his key; empty for a gateway's word and for keys of a file, which have
	// none.
	keyID string
}

type callerKey struct{}

// callerOf returns who makes a call. One who was not let in, which no route allows, may do nothing.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// Reasons why a call was not let in, as the metric tells them.
const (
	deniedNoKey     = "no_key"
	deniedMalformed = "malformed" // no key at all: a typing error, or a guess
	deniedUnknown   = "unknown"
	deniedRevoked   = "revoked"
	deniedScope     = "scope"
	deniedApp       = "app" // a key of another app
	deniedToken     = "token"
	deniedCallback  = "callback" // a timer called the API
)

// denial is a call that is not let in. id is the public part of its key, if it has one.
type denial struct{ reason, id string }

func (d *denial) Error() string { return errNoKey.Error() }

// authenticate lets in who is known. While it asks who calls it has slots of its own: with a store
// that hangs, those who ask pile up here and no further, and those who are known go on; and nothing
// of the body is read before.
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

// WithKey lets in to h whoever has a key, of whatever scope and app; where no keys are asked for,
// everybody.
func (s *Service) WithKey(h http.Handler) http.Handler { return s.limitRequest(s.authenticate(h)) }

// rejectCallbacks refuses what a timer calls. The dialer of this process's executor does not come here
// at all; this holds for those of other processes and hosts, and for addresses that are translated
// on the way here.
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

// remoteKey is where a request's context has the address that it came from.
type remoteKey struct{}

// identify returns who calls. Its error is a *denial, or that the store cannot be asked.
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

// gatewayIdentity returns what a gateway says. A header that is there twice says nothing: one of the two
// may be its caller's.
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

// parseGatewayIdentity reads what a gateway says. A scope that is not known is no part of an app's name: a
// gateway that meant less than write would have given write.
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

// authorizeApp tells whether the caller may act for an app. Another's is not there for him, whether it
// exists or not.
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

// scopeError says that a key may not do this.
type scopeError struct{ needed apikey.Scope }

func (e *scopeError) Error() string {
	return fmt.Sprintf("this needs a key of scope %s", e.needed)
}

// recordDenied counts and logs a call that was not let in. Nothing of a key is logged but its public
// id, and of a flood only some lines a second.
func (s *Service) recordDenied(ctx context.Context, reason, id string) {
	s.metrics.denied.WithLabelValues(reason).Inc()
	remote, _ := ctx.Value(remoteKey{}).(string)
	s.denials.Warn().
		Str("reason", reason).
		Str("key_id", id).
		Str("remote", remote).
		Msg("call not let in")
}

// rateLimited logs at most so many lines a second, of what may befall every request.
func rateLimited(log zerolog.Logger) zerolog.Logger {
	const perSecond = 10
	return log.Sample(&zerolog.BurstSampler{Burst: perSecond, Period: time.Second})
}
