package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
)

// Rules say who may call the API. The zero value admits callers with a key from the store.
type Rules struct {
	Off   bool         // every caller may do everything
	Admin *apikey.Hash // hash of the deployment's first admin key; nil: there is none
	Keys  Keys         // keys from a file, in addition to those in the store; nil: none
	// Tokens verifies the tokens of an identity provider; nil: none is accepted.
	Tokens Tokens

	// TrustHeader is the header by which a gateway names the caller. Its value is "<app>" (scope
	// write), or "<scope>:<app>". An app with a ":" in its name needs
	// the second form. Any other value with a ":" is refused. The API reads the header only on
	// connections from TrustFrom. The gateway must remove it from the requests of its own callers.
	// Empty: none.
	TrustHeader string
	TrustFrom   []netip.Prefix
}

// Checker identifies callers, and checks what they may do.
type Checker struct {
	rules     Rules
	keys      *keyCache
	verifying requests.Slots // of requests whose token is being verified
	problems  *problem.Reporter
	denied    *prometheus.CounterVec
	log       zerolog.Logger // rate-limited
}

// Options are the dependencies of a Checker.
type Options struct {
	Rules       Rules
	Lookup      func(ctx context.Context, id string) (store.APIKey, error)
	MaxInFlight int // key lookups at once, and as many verifications of tokens
	Problems    *problem.Reporter
	Logger      zerolog.Logger
	Registerer  prometheus.Registerer
}

// New returns a Checker.
func New(o Options) *Checker {
	return &Checker{
		rules:     o.Rules,
		keys:      newKeyCache(o.Lookup, requests.NewSlots(o.MaxInFlight)),
		verifying: requests.NewSlots(o.MaxInFlight),
		problems:  o.Problems,
		log:       problem.RateLimited(o.Logger),
		denied: promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_api_denied_total",
			Help: "Requests denied, by reason.",
		}, []string{"reason"}),
	}
}

// Forget removes a key from the cache, because this process created or revoked it.
func (k *Checker) Forget(id string) { k.keys.invalidate(id) }

// caller identifies the caller of a request and what it may do.
type caller struct {
	deployment bool // may act for every app
	app        string
	scope      apikey.Scope
	// keyID is the public part of the key. It is empty for callers named by a gateway and for keys
	// from a file.
	keyID   string
	keyName string          // display name of a key from the store
	person  *Person         // who has roles instead of one app and scope; nil: the caller is none
	kind    store.ActorKind // how it is known
}

type (
	callerKey  struct{}
	requestKey struct{} // of the request by which the caller is known
)

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
	deniedInvalid   = "invalid" // a token that is forged, expired or for others
	deniedRevoked   = "revoked"
	deniedScope     = "scope"
	deniedApp       = "app" // a key of another app
	DeniedToken     = "token"
	deniedCallback  = "callback" // a timer called the API
	deniedOrigin    = "origin"   // a browser sent it for a page of another site
)

// denial is the error of a denied request. id is the public part of its key, or empty. cause is for
// the log: what is wrong with a token.
type denial struct {
	reason, id string
	cause      error
}

func (d *denial) Error() string {
	switch d.reason {
	case deniedInvalid:
		return "the bearer token is expired, or not issued for this API: get another one"
	case deniedRevoked:
		return "the key was revoked: use another one"
	}
	return errNoKey.Error()
}

// errTooMany means that no slot was free for what identifies the caller.
var errTooMany = errors.New("too many requests at once")

// Authenticate admits requests with a valid key. Requests hold a slot of their own while their key
// is looked up, and of another kind while their token is verified. When the store or the identity
// provider hangs, only these slots fill up: callers with a cached key, one of the settings, or
// another kind of credential are still served. The body is not read before.
//
// Where a gateway names the caller, it refuses changes that a browser sends for a page of another
// site: the gateway knows callers by a cookie or the like, which browsers send along. They add a key
// only for pages that have it.
func (k *Checker) Authenticate(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, named := k.rules.gatewayIdentity(r); named && origins.Check(r) != nil {
			k.RecordDenied(r.Context(), deniedOrigin, "")
			problem.Refuse(w, r, problem.Fault{Status: http.StatusForbidden, Msg: crossOrigin})
			return
		}
		c, err := k.identify(r)
		if errors.Is(err, errTooMany) {
			requests.TooMany(w, r)
			return
		}
		if d, ok := err.(*denial); ok { //nolint:errorlint // identify wraps none
			k.recordDenied(r.Context(), d)
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem.Refuse(
				w,
				r,
				problem.Fault{Status: http.StatusUnauthorized, Msg: d.Error()},
			)
			return
		}
		if err != nil {
			f := k.problems.FaultOf(r.Context(), err, http.StatusUnprocessableEntity)
			problem.Refuse(w, r, f)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, c)
		ctx = context.WithValue(ctx, requestKey{}, r)
		next.ServeHTTP(w, r.WithContext(store.WithActor(ctx, actor(ctx, &c))))
	})
}

// crossOrigin is what a browser is told. Programs send neither header.
const crossOrigin = "expected a request of a program or of a page at the same host, found a change " +
	"for a page of another site (Sec-Fetch-Site or Origin): let its server call the API"

// StillAdmitted returns an error once the caller of a request would be refused if it called now: a
// key was revoked, or a token has expired. Answers that go on for minutes ask it. ctx is the
// request's. An unavailable store ends no answer: without it there is nothing to read either.
func (k *Checker) StillAdmitted(ctx context.Context) error {
	r, ok := ctx.Value(requestKey{}).(*http.Request)
	if !ok {
		return nil
	}
	_, err := k.identify(r.WithContext(ctx))
	if d, ok := err.(*denial); ok { //nolint:errorlint // identify wraps none
		k.recordDenied(ctx, d)
		return d
	}
	return nil
}

// actor returns the caller as the audit trail names it.
func actor(ctx context.Context, c *caller) *store.Actor {
	by := &store.Actor{
		Kind: c.kind, ID: c.keyID, Name: c.keyName,
		Address: requests.RemoteHost(ctx), Request: requests.RequestID(ctx),
	}
	if by.ID == "" {
		by.ID = c.app
	}
	if c.person != nil {
		by.ID, by.Name = c.person.Subject, c.person.Name
	}
	return by
}

// AsTokenHolder names in the audit trail who completes a fire: the holder of its token, or the
// person who signed in to the page and had it. Requests with a token have no key.
func (k *Checker) AsTokenHolder(ctx context.Context) context.Context {
	c := caller{kind: store.ActorToken}
	if p := personOf(ctx); p != nil {
		c = caller{person: p, kind: store.ActorPerson}
	}
	return store.WithActor(ctx, actor(ctx, &c))
}

// RejectCallbacks refuses requests that a timer makes. The executor in this process never dials
// this listener. The check covers executors of other processes and hosts, and translated addresses.
func (k *Checker) RejectCallbacks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if egress.IsCallback(r) {
			k.RecordDenied(r.Context(), deniedCallback, "")
			problem.Refuse(
				w,
				r,
				problem.Fault{
					Status: http.StatusForbidden,
					Msg:    "a timer's callback may not call Carillon itself",
				},
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identify returns the caller. The error is a *denial, errTooMany, or says that the store is
// unavailable.
func (k *Checker) identify(r *http.Request) (caller, error) {
	a := &k.rules
	if a.Off {
		return caller{deployment: true, scope: apikey.Admin, kind: store.ActorAnonymous}, nil
	}
	if p := personOf(r.Context()); p != nil {
		return caller{person: p, kind: store.ActorPerson}, nil
	}
	if identity, ok := a.gatewayIdentity(r); ok {
		c, err := parseGatewayIdentity(identity)
		if err != nil {
			return caller{}, &denial{reason: deniedMalformed}
		}
		c.kind = store.ActorGateway
		return c, nil
	}
	text, ok := bearer(r)
	if !ok {
		return caller{}, &denial{reason: deniedNoKey}
	}
	if app, ok := a.Keys.app(text); ok {
		return caller{app: app, scope: apikey.Write, kind: store.ActorKeyFile}, nil
	}
	if a.Tokens != nil && isToken(text) {
		if !k.verifying.TryAcquire() {
			return caller{}, errTooMany
		}
		defer k.verifying.Release()
		return identifyToken(r.Context(), a.Tokens, text)
	}
	key, err := apikey.Parse(text)
	if err != nil {
		return caller{}, &denial{reason: deniedMalformed}
	}
	if a.Admin != nil && key.Matches(*a.Admin) {
		return caller{
			deployment: true, scope: apikey.Admin,
			keyID: key.ID(), keyName: "CARILLON_ADMIN_KEY", kind: store.ActorKey,
		}, nil
	}
	return k.keys.identify(r.Context(), key)
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
func (a *Rules) gatewayIdentity(r *http.Request) (string, bool) {
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
	if identity == "*" || app == "*" {
		return caller{}, errors.New("names no app, and a gateway's callers have one")
	}
	if !two {
		return caller{app: identity, scope: apikey.Write}, nil
	}
	sc, err := apikey.ParseScope(scope)
	if err == nil && app == "" {
		err = errors.New("names no app")
	}
	return caller{app: app, scope: sc}, err
}

func (a *Rules) fromTrusted(remote string) bool {
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

// AuthorizeApp checks that the caller may act for an app. For another app the error is not_found,
// whether the app exists or not.
func (k *Checker) AuthorizeApp(ctx context.Context, app string) error {
	c := callerOf(ctx)
	have := c.scopeOf(app)
	if have == "" {
		k.RecordDenied(ctx, deniedApp, c.keyID)
		return store.NoSuchApp(app)
	}
	return k.require(ctx, have, neededScope(ctx))
}

// RecordDenied counts and logs a denied request. It logs the caller as the audit trail names it, of
// a key only the public id, and only some lines a second.
func (k *Checker) RecordDenied(ctx context.Context, reason, id string) {
	k.recordDenied(ctx, &denial{reason: reason, id: id})
}

// maxCause is how many bytes of a cause are logged, which may quote what a stranger has sent.
const maxCause = 300

func (k *Checker) recordDenied(ctx context.Context, d *denial) {
	k.denied.WithLabelValues(d.reason).Inc()
	line := k.log.Warn().Str("reason", d.reason).Str("key_id", d.id)
	if d.cause != nil {
		cause := d.cause.Error()
		line.Str("cause", strings.ToValidUTF8(cause[:min(len(cause), maxCause)], ""))
	}
	if c := callerOf(ctx); c.kind != "" && d.id == "" {
		line.Str("caller_kind", string(c.kind)).Str("caller", actor(ctx, &c).ID)
	}
	line.Str("remote", requests.Remote(ctx)).
		Str(logging.Request, requests.RequestID(ctx)).
		Msg("request denied")
}

var errNoKey = errors.New("a known key is required: Authorization: Bearer <key>")

// RequireDeploymentKey refuses keys of one app: for them the deployment's keys do not exist.
func (k *Checker) RequireDeploymentKey(ctx context.Context) error {
	c := callerOf(ctx)
	if have := c.scopeOfAll(); have != "" {
		return k.require(ctx, have, neededScope(ctx))
	}
	k.RecordDenied(ctx, deniedApp, c.keyID)
	scope := problem.ScopeError{Needed: neededScope(ctx), Deployment: true}
	return &timer.Error{
		Code: timer.CodeNotFound,
		Msg:  scope.Error() + ": a key of an app has only what is its app's",
	}
}

// MayChange checks that the caller may act for the app, and that the app can be changed. field is
// where the caller named it.
func (k *Checker) MayChange(ctx context.Context, field, app string) error {
	if err := k.AuthorizeApp(ctx, app); err != nil {
		return err
	}
	return input.CheckNotSystemApp(field, app)
}
