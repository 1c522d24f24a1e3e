package egress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Options of a policy. The zero value opens public addresses on ports 80 and 443.
type Options struct {
	Ports         Ports  // open on public addresses; default 80 and 443
	Allow         []Rule // what is open besides
	AllowLoopback bool   // this machine, any port
	// AllowPrivate: loopback, private, shared, link-local, unique-local and special-purpose
	// networks, any port, and any port of public addresses.
	AllowPrivate bool
	OwnListeners *OwnListeners // listeners of this process, which nothing opens; nil: none
}

// Policy says which addresses may be reached. It is immutable, and safe for concurrent use.
type Policy struct {
	o   Options
	key string
}

// NewPolicy returns a policy.
func NewPolicy(o Options) *Policy {
	if o.Ports == nil {
		o.Ports = Ports{{80, 80}, {443, 443}}
	}
	o.Allow = slices.Clone(o.Allow)
	h := sha256.New()
	fmt.Fprintf(h, "%v|%t|%t|%p", o.Ports, o.AllowLoopback, o.AllowPrivate, o.OwnListeners)
	for _, r := range o.Allow {
		fmt.Fprintf(h, "|%q", r.text)
	}
	return &Policy{o: o, key: hex.EncodeToString(h.Sum(nil)[:8])}
}

// With returns the policy of an app: this one, and rules of its own.
func (p *Policy) With(rules ...Rule) *Policy {
	if len(rules) == 0 {
		return p
	}
	o := p.o
	o.Allow = append(slices.Clone(o.Allow), rules...)
	return NewPolicy(o)
}

// Key is the same for policies that say the same. Connections are shared under it: one that was
// dialled under another policy might lead where this one forbids.
func (p *Policy) Key() string { return p.key }

// RefusedError is the error about a destination that the policy forbids. It never passes by itself.
type RefusedError struct {
	Host   string // as it was asked for
	Addr   netip.AddrPort
	Reason string
}

func (r *RefusedError) Error() string {
	if !r.Addr.IsValid() && r.Host == "" {
		return "this target may not be called: " + r.Reason
	}
	if r.Host == r.Addr.Addr().String() || r.Host == "" {
		return fmt.Sprintf("this address may not be called: %s: %s", r.Addr, r.Reason)
	}
	return fmt.Sprintf("this address may not be called: %s of %s: %s", r.Addr, r.Host, r.Reason)
}

// Check tells whether an address may be connected to, which a host name resolved to ("" where there
// is none). Its error is a *RefusedError.
func (p *Policy) Check(host string, to netip.AddrPort) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	a := to.Addr().WithZone("").Unmap()
	if !a.IsValid() || to.Port() == 0 {
		return &RefusedError{Host: host, Addr: to, Reason: "it is no address"}
	}
	if _, own := p.o.OwnListeners.find(to); own {
		return &RefusedError{
			Host:   host,
			Addr:   to,
			Reason: "it is Carillon's own, which no timer calls",
		}
	}
	if err := p.check(host, a, to); err != nil {
		return err
	}
	// A translator or a tunnel that a rule opens leads to IPv4 addresses, of which each must be
	// open itself.
	if v4, ok := embeddedIPv4(
		a,
	); ok && a != netip.IPv6Loopback() &&
		!p.hasExactPrefix(a, to.Port(), a.BitLen()) {
		return p.check(host, v4, netip.AddrPortFrom(v4, to.Port()))
	}
	return nil
}

// CheckDialed is Check for what a Dialer is going to connect: an address that it answers by an echo
// endpoint is allowed as well.
func (p *Policy) CheckDialed(host string, to netip.AddrPort) error {
	if l, own := p.o.OwnListeners.find(to); own && l.echo != nil {
		return nil
	}
	return p.Check(host, to)
}

func (p *Policy) check(host string, a netip.Addr, to netip.AddrPort) error {
	c := classOf(a)
	for i := range p.o.Allow {
		r := &p.o.Allow[i]
		ports := r.ports
		if ports == nil {
			ports = p.o.Ports
		}
		if ports.Contains(to.Port()) && r.matches(host, a, c) {
			return nil
		}
	}
	switch {
	case c == forbidden:
	case p.o.AllowPrivate, c == loopback && p.o.AllowLoopback:
		return nil
	case c == public:
		if p.o.Ports.Contains(to.Port()) {
			return nil
		}
		return &RefusedError{Host: host, Addr: to, Reason: "its port is not open"}
	}
	return &RefusedError{Host: host, Addr: to, Reason: "it is a " + c.String() + " address"}
}

// hasExactPrefix tells whether a rule names exactly this address.
func (p *Policy) hasExactPrefix(a netip.Addr, port uint16, bits int) bool {
	for _, r := range p.o.Allow {
		if r.prefix.IsValid() && r.prefix.Bits() == bits && r.prefix.Contains(a) &&
			(r.ports == nil || r.ports.Contains(port)) {
			return true
		}
	}
	return false
}

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolve returns those addresses of a host that may be connected to at a port, for a connection
// that another library makes. Where none may, the error is a *RefusedError. nil is the system's
// resolver.
func (p *Policy) Resolve(
	ctx context.Context,
	r Resolver,
	host string,
	port uint16,
) ([]netip.AddrPort, error) {
	if r == nil {
		r = net.DefaultResolver
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = r.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	var open []netip.AddrPort
	var refused error
	for _, a := range addrs {
		to := netip.AddrPortFrom(a.Unmap(), port)
		if err := p.Check(host, to); err != nil {
			refused = err
			continue
		}
		open = append(open, to)
	}
	if len(open) == 0 {
		if refused == nil {
			refused = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
		}
		return nil, refused
	}
	return open, nil
}

// Has tells whether a rule, as it is written, is one of the policy's own.
func (p *Policy) Has(rule string) bool {
	return slices.ContainsFunc(
		p.o.Allow,
		func(r Rule) bool { return r.text == strings.TrimSpace(rule) },
	)
}
