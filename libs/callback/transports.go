package callback

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/callback/internal/http1"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxTransports limits the cached transports, besides the default one that most timers share.
const maxTransports = 512

// Limits after which shared connections are checked and closed. With those of HTTP/2 a dead one is
// closed within 12 s: before the third attempt of the default retry policy, 13 s after the first.
const (
	pingAfter   = 7 * time.Second // without any frame from the other end
	pingTimeout = 5 * time.Second // without a reply
	// gRPC servers limit pings to one every 5 min. By default the third ping too many closes the
	// connection and its calls. A call takes at most 5 min and so sends at most three pings. TCP
	// ends a connection earlier if sent data is not acknowledged within pingTimeout.
	grpcPingAfter = 80 * time.Second
)

// transport sends requests with the same settings. It gives plain HTTP/1.1 to a transport that needs
// less time for it.
type transport struct {
	*http.Transport

	plain *http1.Transport // nil if requests over plain HTTP use HTTP/2
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.plain != nil && http1.Serves(r) {
		return t.plain.RoundTrip(r)
	}
	return t.Transport.RoundTrip(r)
}

// CloseIdleConnections closes the connections that no call uses.
func (t *transport) CloseIdleConnections() {
	if t.plain != nil {
		t.plain.CloseIdleConnections()
	}
	t.Transport.CloseIdleConnections()
}

// transports keeps one transport for each transportKey.
type transports struct {
	o      *HTTPOptions
	base   *tls.Config // nil except in tests
	common *transport  // of the default settings, which most timers share

	mu    sync.Mutex
	cache *lru.Cache[transportKey, *transport]
}

func newTransports(o *HTTPOptions) (*transports, error) {
	t := &transports{o: o}
	var err error
	// A call may still use an evicted transport; the idle timeout then closes its connection.
	if t.cache, err = lru.NewWithEvict(
		maxTransports,
		func(_ transportKey, old *transport) { old.CloseIdleConnections() },
	); err != nil {
		return nil, fmt.Errorf("making the cache of transports: %w", err)
	}
	if t.common, err = t.make(o.Egress, &transportKey{}); err != nil {
		return nil, err
	}
	return t, nil
}

// get returns the transport for a key under a policy.
func (t *transports) get(p *egress.Policy, w transportKey) (*transport, error) {
	if w == (transportKey{policy: t.o.Egress.Key()}) {
		return t.common, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr, ok := t.cache.Get(w); ok {
		return tr, nil
	}
	tr, err := t.make(p, &w)
	if err != nil {
		return nil, err
	}
	t.cache.Add(w, tr)
	return tr, nil
}

func (t *transports) make(p *egress.Policy, w *transportKey) (*transport, error) {
	dial := t.o.Dial
	dial.Timeout = t.o.DialTimeout
	dialer, err := egress.NewDialer(p, dial)
	if err != nil {
		return nil, err
	}
	c, err := tlsConfig(&t.o.NetOptions, w, t.base)
	if err != nil {
		return nil, err
	}
	if w.http2 == timer.HTTP2Always {
		c.VerifyConnection = requireHTTP2
	}
	out := &transport{Transport: &http.Transport{
		// Proxy is not set, because behind a proxy nothing checks the address.
		DialContext:     dialer.DialContext,
		TLSClientConfig: c,
		Protocols:       protocols(w),
		// Excerpts show the body as received, and nothing else of a body is used.
		DisableCompression:     true,
		TLSHandshakeTimeout:    t.o.DialTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        t.o.IdleTimeout,
		MaxIdleConns:           t.o.MaxIdleConns,
		MaxIdleConnsPerHost:    t.o.MaxIdleConnsPerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// Without pings, a dead connection would let every call that shares it time out, until TCP
		// notices.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}}
	if w.http2 != "always" {
		out.plain = http1.New(http1.Options{
			Dial:           dialer.DialContext,
			IdleTimeout:    t.o.IdleTimeout,
			MaxIdle:        t.o.MaxIdleConns,
			MaxIdlePerHost: t.o.MaxIdleConnsPerHost,
			MaxHeaderBytes: maxHeaderBytes,
		})
	}
	return out, nil
}

var errNoHTTP2 = errors.New("the server does not speak HTTP/2, which the target's http2 demands")

// requireHTTP2 refuses a connection of TLS before a request is sent on it. A server that knows
// nothing of ALPN chooses no protocol, and the transport would then speak HTTP/1.1.
func requireHTTP2(c tls.ConnectionState) error {
	if c.NegotiatedProtocol != "h2" {
		return errNoHTTP2
	}
	return nil
}

func protocols(w *transportKey) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(w.http2 != "always")
	p.SetHTTP2(w.http2 != "never")
	p.SetUnencryptedHTTP2(w.http2 == "always")
	return p
}

func (t *transports) closeIdle() {
	t.common.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Purge()
}
