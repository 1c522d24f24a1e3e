package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// HeaderCallback is on every callback by HTTP or gRPC, also after redirects. No target can set or
// remove it.
const HeaderCallback = "Carillon-Fire-Id"

// HeaderTokenRequest is on every request for an OAuth2 token that a callback needs.
const HeaderTokenRequest = "Carillon-Token-Request" //nolint:gosec // a name

// IsCallback returns whether a request was made on behalf of a timer. Listeners of Carillon refuse
// such requests. The dialer knows only the listeners of its own process; the header also works
// across processes, hosts, load balancers and address translation.
func IsCallback(r *http.Request) bool {
	return len(r.Header[HeaderCallback]) > 0 || len(r.Header[HeaderTokenRequest]) > 0
}

// Echo is an endpoint that replaces a listener for callers. It serves one path.
type Echo struct {
	Path string
	Dial func(ctx context.Context) (net.Conn, error)
}

// OwnListeners are the listeners of this process, which no rule opens. It is safe for concurrent
// use; nil has no listeners.
type OwnListeners struct {
	mu        sync.RWMutex
	listeners []ownListener
	addresses func() ([]net.Addr, error) // addresses of the host; nil: net.InterfaceAddrs
}

type ownListener struct {
	at   netip.AddrPort
	echo *Echo
}

// Add adds a listener's address. If echo is set, a Dialer connects callers of that address to it
// and to nothing else. The listener itself stays unreachable, whatever the path, Host or redirect.
func (o *OwnListeners) Add(addr net.Addr, echo *Echo) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return // timers reach only TCP
	}
	at := netip.IPv6Unspecified() // for a nil IP
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

// reaches returns whether a listener bound to one address accepts connections to another. The
// kernel treats the unspecified address as loopback. Interfaces are read each time, because they
// change. If they cannot be read, every address counts as the host's.
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
