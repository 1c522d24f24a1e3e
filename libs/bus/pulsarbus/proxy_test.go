package pulsarbus_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards between one process and the broker, and can cut the connections.
type proxy struct {
	listener net.Listener
	target   string

	held  sync.RWMutex // locked by Hold
	mu    sync.Mutex
	wg    sync.WaitGroup
	cut   bool
	conns []net.Conn
}

func newProxy(t *testing.T, target string) *proxy { return newProxyAt(t, "127.0.0.1:0", target) }

func newProxyAt(t *testing.T, addr, target string) *proxy {
	u, err := url.Parse(target)
	require.NoError(t, err)
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	p := &proxy{listener: l, target: u.Host}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "pulsar://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.cut {
			_ = near.Close()
			if far != nil {
				_ = far.Close()
			}
		} else {
			p.conns = append(p.conns, near, far)
			p.wg.Go(func() { p.pipe(near, far) })
			p.wg.Go(func() { p.pipe(far, near) })
		}
		p.mu.Unlock()
	}
}

func (p *proxy) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, io.TeeReader(from, waiter{p}))
	_, _ = to.Close(), from.Close()
}

// waiter makes what passes wait while the proxy holds it.
type waiter struct{ p *proxy }

func (w waiter) Write(b []byte) (int, error) {
	w.p.held.RLock()
	defer w.p.held.RUnlock()
	return len(b), nil
}

// Hold keeps every connection open and lets nothing through until the returned function is called.
func (p *proxy) Hold() (release func()) {
	p.held.Lock()
	return sync.OnceFunc(p.held.Unlock)
}

// Cut ends every connection and refuses new ones.
func (p *proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Restore ends a Cut.
func (p *proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}
