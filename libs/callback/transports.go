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

// maxTransports is how many different ways to call are kept with their connections, besides the plain one
// that most timers share.
const maxTransports = 512

// How connections that calls share are found dead.
const (
	pingAfter   = 15 * time.Second // without a word of the other end
	pingTimeout = 5 * time.Second  // without an answer
	// gRPC servers take pings amiss that come oftener than every 5 min: by default the third of
	// them ends the connection, and the calls on it. A call may take 5 min, so there are no more
	// than three in it. What is sent and not acknowledged within pingTimeout ends it by TCP before.
	grpcPingAfter = 80 * time.Second
)

// transports keeps one pool of connections for each way to call.
type transports struct {
	o     *HTTPOptions
	base  *tls.Config // nil but in tests
	plain *http.Transport

	mu    sync.Mutex
	cache *lru.Cache[transportKey, *http.Transport]
}

func newTransports(o *HTTPOptions) (*transports, error) {
	t := &transports{o: o}
	var err error
	// A call may just be using the one that is evicted: its connection is closed by the idle
	// timeout then.
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

// get returns the transport for a way under a policy.
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
		// and no Proxy: behind one nobody checks the address.
		DialContext:     dialer.DialContext,
		TLSClientConfig: c,
		Protocols:       protocols(w),
		// excerpts are shown as they came, and nothing else of a body is used.
		DisableCompression:     true,
		TLSHandshakeTimeout:    t.o.DialTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        t.o.IdleTimeout,
		MaxIdleConns:           t.o.MaxIdleConns,
		MaxIdleConnsPerHost:    t.o.MaxIdleConnsPerHost,
		MaxConnsPerHost:        t.o.MaxConnsPerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// A connection whose other end is gone without a word would time out every call that shares
		// it, until TCP notices.
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
