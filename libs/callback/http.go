package callback

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
)

// HTTPOptions says how an HTTP caller behaves. The zero value is a safe one.
type HTTPOptions struct {
	NetOptions

	// AllowPrivate opens loopback, private and special networks and any port, where Egress is nil.
	AllowPrivate bool

	// DialTimeout: of name resolution and connect, and of TLS; default 5 s; an attempt's own
	// timeout may be shorter.
	DialTimeout  time.Duration
	MaxIdleConns int // unused connections kept in all; default 4096
	// MaxIdleConnsPerHost: unused connections kept to one host; default 1024: fewer than calls at
	// once means dialling anew.
	MaxIdleConnsPerHost int
	// MaxConnsPerHost: connections to one host; default 0: as many as there are calls at once.
	MaxConnsPerHost int
	// MaxDrain: bytes of an answer that are read so that its connection can be used again; default
	// 64 KiB.
	MaxDrain int64
}

// maxHeaderBytes is how long the head of an answer may be.
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

// policy returns the policy of a request.
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

// DefaultTimeout is the timeout of a request that has none.
const DefaultTimeout = 5 * time.Second

// HTTP calls HTTP targets. It sends by HTTP/1.1 with kept connections, by HTTP/2 where an https
// server offers it, unless a target says otherwise. Connections are shared by calls that go the
// same way: the same egress policy, TLS options and HTTP version.
type HTTP struct {
	o          HTTPOptions
	userAgent  []string // as a header's values
	transports *transports
	tokens     *tokens
	rules      *rules
}

var _ Caller = (*HTTP)(nil)

// NewHTTP returns an HTTP caller. Close it to close its idle connections.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.DialTimeout < 0 || o.IdleTimeout < 0 || o.MaxIdleConns < 0 || o.MaxIdleConnsPerHost < 0 ||
		o.MaxConnsPerHost < 0 ||
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

// Close closes idle connections. Calls in flight go on, until their contexts end.
func (h *HTTP) Close() { h.transports.closeIdle() }

// Call makes one attempt, and returns at the latest when r.Timeout is over or ctx ends. Unless the
// target has rules of its own any 2xx is success, even where the rest of the answer never comes. A
// kept connection that the server closed just then is replaced, once nothing of the answer came:
// the request carries the fire id as its Idempotency-Key, so that sending it again is safe.
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
	if u := req.URL.User; u != nil { // of a definition that is older than the API's care for it
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
	resp, err := h.send(r, req, transport, secrets)
	if err != nil {
		return redactResult(failedResult(ctx, err, timeout), r, secrets)
	}
	return redactResult(h.classify(ctx, r, resp, timeout), r, secrets)
}

// send sends a request and follows the redirects that its target wants followed. RoundTrip rather
// than a Client's Do: that adds cookies and redirects of another kind than ours, at a fifth of the
// cost.
func (h *HTTP) send(
	r *Request,
	req *http.Request,
	transport *http.Transport,
	secrets []secretHeader,
) (*http.Response, error) {
	resp, err := transport.RoundTrip(req)
	if err == nil && r.Target.Redirects > 0 {
		return h.followRedirects(r, req, resp, secrets)
	}
	return resp, err
}

// callWithToken is Call for targets with OAuth2. A token that was kept and is not believed any more
// is replaced once.
func (h *HTTP) callWithToken(
	ctx context.Context,
	r *Request,
	req *http.Request,
	transport *http.Transport,
	secrets []secretHeader,
	timeout time.Duration,
) Result {
	policy := h.o.policy(r)
	for again := false; ; again = true {
		token, kept, err := h.tokens.get(req.Context(), r.App, policy, r.Target.OAuth2)
		if err != nil {
			return redactResult(tokenFailure(ctx, err, timeout), r, secrets)
		}
		hide := slices.Concat(secrets, []secretHeader{{"Authorization", token}})
		req.Header["Authorization"] = []string{"Bearer " + token}
		resp, err := h.send(r, req, transport, hide)
		if err != nil {
			return redactResult(failedResult(ctx, err, timeout), r, hide)
		}
		if resp.StatusCode == http.StatusUnauthorized {
			h.tokens.drop(r.App, policy, r.Target.OAuth2, token)
			if kept && !again {
				_ = resp.Body.Close()
				fresh := req.Clone(req.Context())
				if req.GetBody != nil {
					fresh.Body, _ = req.GetBody() // memory: no error
				}
				req = fresh
				continue
			}
		}
		return redactResult(h.classify(ctx, r, resp, timeout), r, hide)
	}
}
