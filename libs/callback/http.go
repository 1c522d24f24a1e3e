package callback

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
)

// HTTPOptions configure an HTTP caller. The zero value is safe.
type HTTPOptions struct {
	NetOptions

	// AllowPrivate opens loopback, private and special networks and any port, where Egress is nil.
	AllowPrivate bool

	// DialTimeout limits name resolution and connect together, and the TLS handshake; default 5 s.
	// An attempt's own timeout may be shorter.
	DialTimeout time.Duration
	// MaxIdleConns limits idle connections; default 4096. Those of plain HTTP/1.1 have the same limit
	// again.
	MaxIdleConns int
	// MaxIdleConnsPerHost limits idle connections to one host; default 1024. With fewer than there
	// are concurrent calls, some calls dial again.
	MaxIdleConnsPerHost int
	// MaxDrain is how many bytes of an answer are read so that its connection can be reused;
	// default 64 KiB.
	MaxDrain int64
}

// maxHeaderBytes limits the header of an answer.
const maxHeaderBytes = 64 << 10

func (o *HTTPOptions) setDefaults() {
	o.NetOptions.setDefaults(o.AllowPrivate)
	setDefault(&o.DialTimeout, 5*time.Second)
	setDefault(&o.MaxIdleConns, 4096)
	setDefault(&o.MaxIdleConnsPerHost, 1024)
	setDefault(&o.MaxDrain, 64<<10)
}

func (o *NetOptions) setDefaults(allowPrivate bool) {
	setDefault(&o.UserAgent, "Carillon/1")
	setDefault(&o.IdleTimeout, time.Minute)
	if o.Egress == nil {
		o.Egress = egress.NewPolicy(egress.Options{AllowPrivate: allowPrivate})
	}
}

// policy returns the egress policy of a request.
func (o *NetOptions) policy(r *Request) *egress.Policy {
	if r.Egress != nil {
		return r.Egress
	}
	return o.Egress
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// DefaultTimeout applies to requests without a timeout.
const DefaultTimeout = 5 * time.Second

// HTTP calls HTTP targets. It uses HTTP/1.1 with kept connections, and HTTP/2 where an https server
// offers it, unless the target says otherwise. Calls share connections if they have the same egress
// policy, TLS options and HTTP version.
type HTTP struct {
	o          HTTPOptions
	userAgent  []string // as the values of a header
	transports *transports
	tokens     *tokens
	rules      *rules
}

var _ Caller = (*HTTP)(nil)

// NewHTTP returns an HTTP caller. Close it to close its idle connections.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.DialTimeout < 0 || o.IdleTimeout < 0 || o.MaxIdleConns < 0 || o.MaxIdleConnsPerHost < 0 ||
		o.MaxDrain < 0 {
		return nil, errors.New("options of the HTTP caller: limits and times must not be negative")
	}
	o.setDefaults()
	h := &HTTP{o: o, userAgent: []string{o.UserAgent}}
	var err error
	if h.transports, err = newTransports(&h.o); err != nil {
		return nil, err
	}
	if h.rules, err = newRules(); err != nil {
		return nil, err
	}
	if h.tokens, err = newTokens(h.transports, &h.o.NetOptions); err != nil {
		return nil, err
	}
	return h, nil
}

// Close closes idle connections. Calls in flight continue until their contexts end.
func (h *HTTP) Close() { h.transports.closeIdle() }

// Call makes one attempt. It returns when r.Timeout has passed or ctx ends. Without a success rule
// any 2xx is success, even if the rest of the answer never arrives. If the server has just closed a
// kept connection, the request is sent again on a new one, but only before any part of the answer.
// That is safe, because the Idempotency-Key is the fire id.
func (h *HTTP) Call(ctx context.Context, r *Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secrets, err := openHeaders(h.o.Secrets, h.o.ReservedHeader, r)
	if err != nil {
		return invalidResult(err)
	}
	req, err := h.newRequest(callCtx, r, secrets)
	if err != nil {
		return invalidResult(err)
	}
	if u := req.URL.User; u != nil { // of a definition stored before the API moved userinfo
		secrets = append(slices.Clip(secrets), secretHeader{"Authorization", basic(u)})
	}
	policy := h.o.policy(r)
	transport, err := h.transports.get(policy, transportKeyOf(policy.Key(), r.App, &r.Target))
	if err != nil {
		return invalidResult(err)
	}
	if r.Target.OAuth2 != nil {
		return h.callWithToken(ctx, r, req, transport, secrets, timeout)
	}
	got, err := h.send(r, req, transport, secrets)
	if err != nil {
		return redactResult(failedResult(ctx, callCtx, err, timeout), r, secrets)
	}
	return redactResult(h.classify(ctx, r, got, timeout), r, secrets)
}

// send sends a request and follows redirects if the target allows them. It uses RoundTrip, because
// a Client adds cookies and follows other redirects, at five times the cost.
func (h *HTTP) send(
	r *Request,
	req *http.Request,
	transport *transport,
	secrets []secretHeader,
) (answer, error) {
	resp, err := transport.RoundTrip(req)
	if err == nil && r.Target.Redirects > 0 {
		return h.followRedirects(r, req, resp, secrets)
	}
	return answer{Response: resp}, err
}

// callWithToken is Call for targets with OAuth2. If the receiver refuses the token, the next attempt
// fetches a new one: an attempt calls once.
func (h *HTTP) callWithToken(
	ctx context.Context,
	r *Request,
	req *http.Request,
	transport *transport,
	secrets []secretHeader,
	timeout time.Duration,
) Result {
	policy := h.o.policy(r)
	token, cached, err := h.tokens.get(req.Context(), r.App, policy, r.Target.OAuth2)
	if err != nil {
		return redactResult(tokenFailure(ctx, req.Context(), err, timeout), r, secrets)
	}
	secrets = slices.Concat(secrets, []secretHeader{{"Authorization", token}})
	req.Header["Authorization"] = []string{"Bearer " + token}
	got, err := h.send(r, req, transport, secrets)
	if err != nil {
		return redactResult(failedResult(ctx, req.Context(), err, timeout), r, secrets)
	}
	// After a redirect to another origin the token was not sent.
	if got.StatusCode == http.StatusUnauthorized && got.Request.Header["Authorization"] != nil {
		h.tokens.drop(r.App, policy, r.Target.OAuth2, token)
		if cached {
			got.note = cachedTokenRefused
		}
	}
	return redactResult(h.classify(ctx, r, got, timeout), r, secrets)
}
