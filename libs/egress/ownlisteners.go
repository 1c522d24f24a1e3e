package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// HeaderCallback is on every callback that a timer makes by HTTP or gRPC, after redirects too; no
// target can set or remove it.
const HeaderCallback = "Carillon-Fire-Id"

// HeaderTokenRequest is on every request for an OAuth2 token that a callback needs.
const HeaderTokenRequest = "Carillon-Token-Request" //nolint:gosec // a name

// IsCallback tells whether a request was made on behalf of a timer. Listeners of Carillon refuse
// such requests: the dialer knows only those of its own process, but the header tells of every
// process, host, load balancer and address translation.
func IsCallback(r *http.Request) bool {
	return len(r.Header[HeaderCallback]) > 0 || len(r.Header[HeaderTokenRequest]) > 0
}

// DialFunc connects to what answers in place of a listener.
type DialFunc func(ctx context.Context) (net.Conn, error)

// OwnListeners are the listeners of this process. No rule opens them. It is safe for concurrent use; nil
// holds none.
type OwnListeners struct {
	mu        sync.RWMutex
	listeners []ownListener
	addresses func() ([]net.Addr, error) // of the host's interfaces; nil is net.InterfaceAddrs
}

type ownListener struct {
	at   netip.AddrPort
	echo DialFunc
}

// Add adds a listener's address. Where echo is given, a Dialer connects callers of that address to
// it, and to nothing else: the listener itself stays out of reach, whatever path, Host or redirect
// led there.
func (o *OwnListeners) Add(addr net.Addr, echo DialFunc) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return // timers reach only TCP
	}
	at := netip.IPv6Unspecified() // of a nil IP
	if a := tcp.AddrPort().Addr(); a.IsValid() {
		at = a.WithZone("").Unmap()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listeners = append(
		o.listeners,
		ownListener{netip.AddrPortFrom(at, tcp.AddrPort().Port()), echo},
	)
}

// find returns the listener that a connection to an address would reach.
func (o *OwnListeners) find(to netip.AddrPort) (l ownListener, ok bool) {
	if o == nil {
		return l, false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	a := to.Addr().WithZone("").Unmap()
	candidates := []netip.Addr{a}
	if v4, ok := embeddedIPv4(a); ok {
		candidates = append(candidates, v4) // a translator on this host leads there
	}
	for _, l := range o.listeners {
		if l.at.Port() == to.Port() &&
			slices.ContainsFunc(
				candidates,
				func(a netip.Addr) bool { return o.reaches(l.at.Addr(), a) },
			) {
			return l, true
		}
	}
	return l, false
}

// reaches tells whether a listener bound to an address takes connections to another. The kernel
// takes the unspecified address for loopback. Interfaces are read each time, for they come and go;
// where they cannot be read, every address counts as the host's.
func (o *OwnListeners) reaches(bound, to netip.Addr) bool {
	if to == bound || to.IsUnspecified() {
		return true
	}
	if !bound.IsUnspecified() {
		return false
	}
	if to.IsLoopback() {
		return true
	}
	read := o.addresses
	if read == nil {
		read = net.InterfaceAddrs
	}
	list, err := read()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().WithZone("").Unmap() == to
	})
}
