package testenv

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy forwards between one process and a server, and can cut or hold the connections.
type Proxy struct {
	listener net.Listener
	server   string

	held  sync.RWMutex // locked by Hold
	mu    sync.Mutex
	wg    sync.WaitGroup
	cut   bool
	conns []net.Conn
}

// NewProxy starts a proxy at an address, such as 127.0.0.1:0, to a server. It ends with the test.
func NewProxy(t testing.TB, addr, server string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("listening for the proxy: %v", err)
	}
	p := &Proxy{listener: l, server: server}
	p.wg.Go(func() { p.accept(t.Context()) })
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept(ctx context.Context) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
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

func (p *Proxy) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, io.TeeReader(from, waiter{p}))
	_, _ = to.Close(), from.Close()
}

// waiter makes what passes wait while the proxy holds it.
type waiter struct{ p *Proxy }

func (w waiter) Write(b []byte) (int, error) {
	w.p.held.RLock()
	defer w.p.held.RUnlock()
	return len(b), nil
}

// Hold keeps every connection open and lets nothing through until the returned function is called.
func (p *Proxy) Hold() (release func()) {
	p.held.Lock()
	return sync.OnceFunc(p.held.Unlock)
}

// Cut ends every connection and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Restore ends a Cut.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}
