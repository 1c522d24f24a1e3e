package callback

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/egress"
)

// maxTransports limits the cached transports, besides the default one that most timers share.
const maxTransports = 512

// Limits after which shared connections are checked and closed.
const (
	pingAfter   = 15 * time.Second // without any frame from the other end
	pingTimeout = 5 * time.Second  // without a reply
	// gRPC servers limit pings to one every 5 min. By default the third ping too many closes the
	// connection and its calls. A call takes at most 5 min and so sends at most three pings. TCP
	// ends a connection earlier if sent data is not acknowledged within pingTimeout.
	grpcPingAfter = 80 * time.Second
)

// transports keeps one connection pool for each transportKey.
type transports struct {
	o     *HTTPOptions
	base  *tls.Config // nil except in tests
	plain *http.Transport

	mu    sync.Mutex
	cache *lru.Cache[transportKey, *http.Transport]
}

func newTransports(o *HTTPOptions) (*transports, error) {
	t := &transports{o: o}
	var err error
	// A call may still use an evicted transport; the idle timeout then closes its connection.
	if t.cache, err = lru.NewWithEvict(
		maxTransports,
		func(_ transportKey, old *http.Transport) { old.CloseIdleConnections() },
	); err != nil {
		return nil, fmt.Errorf("making the cache of transports: %w", err)
	}
	if t.plain, err = t.make(o.Egress, &transportKey{}); err != nil {
		return nil, err
	}
	return t, nil
}

// get returns the transport for a key under a policy.
func (t *transports) get(p *egress.Policy, w transportKey) (*http.Transport, error) {
	if w == (transportKey{policy: t.o.Egress.Key()}) {
		return t.plain, nil
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

func (t *transports) make(p *egress.Policy, w *transportKey) (*http.Transport, error) {
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
	return &http.Transport{
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
		MaxConnsPerHost:        t.o.MaxConnsPerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// Without pings, a dead connection would let every call that shares it time out, until TCP
		// notices.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}, nil
}

func protocols(w *transportKey) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(w.http2 != "always")
	p.SetHTTP2(w.http2 != "never")
	p.SetUnencryptedHTTP2(w.http2 == "always")
	return p
}

func (t *transports) closeIdle() {
	t.plain.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Purge()
}
