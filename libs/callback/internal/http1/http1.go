package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// maxBody limits the bodies of served requests. A body up to this size fits into the buffers of a
// socket, so that it can be written before the answer is read.
const maxBody = 64 << 10

// Options configure a transport. All are required.
type Options struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// IdleTimeout closes a connection after this time without a request, at most 10 s late.
	IdleTimeout    time.Duration
	MaxIdle        int   // limit of idle connections
	MaxIdlePerHost int   // limit of idle connections to one host and port
	MaxHeaderBytes int64 // limit of an answer's header
}

// Transport sends requests over connections that it keeps. It is safe for concurrent use.
type Transport struct {
	o    Options
	idle pool
}

// New returns a transport. Its connections are closed by CloseIdleConnections.
func New(o Options) *Transport {
	return &Transport{o: o, idle: newPool(o.IdleTimeout, o.MaxIdle, o.MaxIdlePerHost)}
}

// Serves returns whether a Transport serves a request: a complete one over plain HTTP with a body
// that is in memory.
func Serves(r *http.Request) bool {
	return r.URL.Scheme == "http" && r.Method != http.MethodConnect &&
		(r.Body == nil || r.Body == http.NoBody || r.GetBody != nil && r.ContentLength >= 0 && r.ContentLength <= maxBody) &&
		len(r.TransferEncoding) == 0 && r.Trailer == nil &&
		r.Header["Expect"] == nil && r.Header["Upgrade"] == nil && r.Header["Connection"] == nil &&
		isASCII(r.URL.Host) && isASCII(r.Host)
}

// isASCII is false for the names of hosts that must be translated.
func isASCII(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c > '~' }) < 0
}

// RoundTrip sends a request that Serves accepts. A request that fails on a kept connection is sent
// once more, on a new one, unless a part of the answer has arrived. So a receiver may get it twice,
// which callers accept: their requests have an idempotency key. If the time ends instead, the host
// may be gone, and with it all kept connections to it. Those that no call has used since are closed,
// so that further calls do not find that out one by one.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	address := addressOf(r)
	if c := t.idle.get(address); c != nil {
		resp, err := c.roundTrip(r)
		if err == nil || c.answered {
			return resp, cause(ctx, err)
		}
		if ctx.Err() != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.idle.closeAsOldAs(c)
			}
			return nil, cause(ctx, err)
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
	nc, err := t.o.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, cause(ctx, err)
	}
	resp, err := newConn(nc, address, &t.idle, t.o.MaxHeaderBytes).roundTrip(r)
	return resp, cause(ctx, err)
}

// cause returns why a context ended in place of an error that this made.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// again returns the same request with an unread body.
func again(r *http.Request) (*http.Request, error) {
	if r.GetBody == nil { // it has none
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	next := *r
	next.Body = body
	return &next, nil
}

// CloseIdleConnections closes the connections that no call uses. Later calls may leave new ones.
func (t *Transport) CloseIdleConnections() { t.idle.clear() }

func addressOf(r *http.Request) string {
	if r.URL.Port() != "" {
		return r.URL.Host
	}
	return net.JoinHostPort(r.URL.Hostname(), "80")
}

// check refuses headers that would break the protocol, with the errors of net/http.
func check(r *http.Request) error {
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("net/http: invalid header field name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) { // it may be a secret
				return fmt.Errorf("net/http: invalid header field value for %q", name)
			}
		}
	}
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method): // methods and names of headers are tokens
		return fmt.Errorf("net/http: invalid method %q", r.Method)
	case r.URL.Host == "":
		return errors.New("http: no Host in request URL")
	}
	return nil
}
