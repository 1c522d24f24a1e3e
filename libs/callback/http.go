package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// HTTPOptions says how an HTTP caller behaves. The zero value is a safe one.
type HTTPOptions struct {
	// AllowPrivate lets timers call loopback, private and otherwise special addresses, and any port. Without it, only public
	// addresses on ports 80 and 443 are dialled, whatever a name resolves to and whenever it does.
	AllowPrivate bool

	UserAgent           string        // where a timer sets none; default "Carillon/1"
	DialTimeout         time.Duration // of name resolution, connect and TLS each; default 5 s; an attempt's own timeout may be shorter
	IdleTimeout         time.Duration // how long an unused connection is kept; default 60 s
	MaxIdleConns        int           // unused connections kept in all; default 4096
	MaxIdleConnsPerHost int           // unused connections kept to one host; default 1024: fewer than calls at once means dialling anew
	MaxConnsPerHost     int           // connections to one host; default 0: as many as there are calls at once
	MaxDrain            int64         // bytes of an answer that are read so that its connection can be used again; default 64 KiB
}

func (o *HTTPOptions) setDefaults() {
	setDefault(&o.UserAgent, "Carillon/1")
	setDefault(&o.DialTimeout, 5*time.Second)
	setDefault(&o.IdleTimeout, time.Minute)
	setDefault(&o.MaxIdleConns, 4096)
	setDefault(&o.MaxIdleConnsPerHost, 1024)
	setDefault(&o.MaxDrain, 64<<10)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// DefaultTimeout is the timeout of a request that has none.
const DefaultTimeout = 5 * time.Second

// HTTP calls HTTP targets. It sends by HTTP/1.1 with kept connections, by HTTP/2 where an https server offers it. It follows no
// redirects and uses no proxy: both would lead past the guard.
type HTTP struct {
	o         HTTPOptions
	transport *http.Transport
}

var _ Caller = (*HTTP)(nil)

// NewHTTP returns an HTTP caller. Close it to close its idle connections.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.DialTimeout < 0 || o.IdleTimeout < 0 || o.MaxIdleConns < 0 || o.MaxIdleConnsPerHost < 0 || o.MaxConnsPerHost < 0 || o.MaxDrain < 0 {
		return nil, errors.New("options of the HTTP caller: limits and times must not be negative")
	}
	o.setDefaults()
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}
	if !o.AllowPrivate {
		// The guard sees the address that is dialled, after resolution: a name cannot change its mind in between.
		dialer.Control = ssrf.New().Safe
	}
	return &HTTP{o: o, transport: &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // excerpts are shown as they came, and nothing else of a body is used
		TLSHandshakeTimeout:    o.DialTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConns:           o.MaxIdleConns,
		MaxIdleConnsPerHost:    o.MaxIdleConnsPerHost,
		MaxConnsPerHost:        o.MaxConnsPerHost,
		MaxResponseHeaderBytes: 64 << 10,
	}}, nil
}

// Close closes idle connections. Calls in flight go on, until their contexts end.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }

// Call makes one attempt, and returns at the latest when r.Timeout is over or ctx ends. Any 2xx is success, even where the rest of
// the answer never comes. A kept connection that the server closed just then is replaced, once nothing of the answer
// came: the request carries the fire id as its Idempotency-Key, so that sending it again is safe.
func (h *HTTP) Call(ctx context.Context, r *Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := h.newRequest(callCtx, r)
	if err != nil {
		return Result{Class: Reject, Error: oneLine(err.Error())}
	}
	// RoundTrip rather than a Client's Do: that adds redirects and cookies, which we do not want, at a fifth of the cost.
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return failure(ctx, err, timeout)
	}
	return h.answer(resp)
}

// failure says what an attempt without answer means.
func failure(ctx context.Context, err error, timeout time.Duration) Result {
	var netErr net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return Result{Class: Reject, Error: oneLine("this address may not be called: " + err.Error())}
	case ctx.Err() != nil:
		return Result{Class: Retry, Error: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return Result{Class: Retry, Error: fmt.Sprintf("no answer within %s", timeout)}
	case errors.As(err, &netErr) && netErr.Timeout():
		return Result{Class: Retry, Error: oneLine("no connection in time: " + err.Error())}
	}
	return Result{Class: Retry, Error: oneLine(err.Error())}
}

func (h *HTTP) answer(resp *http.Response) Result {
	defer resp.Body.Close()
	r := Result{StatusCode: int32(resp.StatusCode)}       //nolint:gosec // three digits
	if resp.StatusCode != http.StatusSwitchingProtocols { // what follows those is no answer, and has no end
		r.Excerpt = readExcerpt(resp.Body, h.o.MaxDrain)
	}
	switch resp.StatusCode / 100 {
	case 2:
		return r
	case 3:
		r.Error = "answered with a redirect, and those are not followed: " + status(resp)
		if to := resp.Header.Get("Location"); to != "" {
			r.Error += " to " + to
		}
	default:
		r.Error = "answered " + status(resp)
	}
	r.Class, r.Error = Retry, oneLine(r.Error)
	return r
}

func status(resp *http.Response) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
}
