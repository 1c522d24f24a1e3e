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

// Options configure a policy. The zero value opens public addresses on ports 80 and 443.
type Options struct {
	Ports         Ports  // open ports of public addresses; default 80 and 443
	Allow         []Rule // rules that open further addresses
	AllowLoopback bool   // opens this machine, any port
	// AllowPrivate opens loopback, private, shared, link-local, unique-local and special-purpose
	// networks, and any port of these and public addresses.
	AllowPrivate bool
	OwnListeners *OwnListeners // listeners of this process, which nothing opens; nil: none
}

// Policy decides which addresses may be reached. It is immutable and safe for concurrent use.
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

// With returns the policy of an app: this policy with additional rules.
func (p *Policy) With(rules ...Rule) *Policy {
	if len(rules) == 0 {
		return p
	}
	o := p.o
	o.Allow = append(slices.Clone(o.Allow), rules...)
	return NewPolicy(o)
}

// Key returns a key that is equal for equal policies. Connections are shared by key, because one
// dialled under another policy may lead to an address that this one forbids.
func (p *Policy) Key() string { return p.key }

// RefusedError reports a destination that the policy forbids. It is permanent.
type RefusedError struct {
	Host   string // as requested
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

// Check returns whether an address may be connected to. host is the name that resolved to it, or
// "". The error is a *RefusedError.
func (p *Policy) Check(host string, to netip.AddrPort) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	a := to.Addr().WithZone("").Unmap()
	if !a.IsValid() || to.Port() == 0 {
		return &RefusedError{Host: host, Addr: to, Reason: "it is no address"}
	}
	if _, own := p.o.OwnListeners.find(to); own {
		return ownRefused(host, to)
	}
	if err := p.check(host, a, to); err != nil {
		return err
	}
	// A translator or tunnel opened by a rule leads to IPv4 addresses. Each of them must be allowed
	// itself.
	if v4, ok := embeddedIPv4(
		a,
	); ok && a != netip.IPv6Loopback() &&
		!p.hasExactPrefix(a, to.Port(), a.BitLen()) {
		return p.check(host, v4, netip.AddrPortFrom(v4, to.Port()))
	}
	return nil
}

func ownRefused(host string, to netip.AddrPort) error {
	return &RefusedError{
		Host:   host,
		Addr:   to,
		Reason: "it is Carillon's own, which no timer calls",
	}
}

// CheckDialed is Check for a URL that a Dialer would connect. It also allows the path of an echo
// endpoint that the dialer connects to instead.
func (p *Policy) CheckDialed(host string, to netip.AddrPort, path string) error {
	if p.isEcho(to, path) {
		return nil
	}
	return p.Check(host, to)
}

// CheckOwn refuses listeners of this process as CheckDialed does, and allows all other addresses.
func (p *Policy) CheckOwn(host string, to netip.AddrPort, path string) error {
	if _, own := p.o.OwnListeners.find(to); own && !p.isEcho(to, path) {
		return ownRefused(host, to)
	}
	return nil
}

func (p *Policy) isEcho(to netip.AddrPort, path string) bool {
	l, own := p.o.OwnListeners.find(to)
	return own && l.echo != nil && l.echo.Path == path
}

// remedy says who may open an address.
const remedy = "; an operator may allow it by carillon app allow, or by callback-allow for all apps"

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
		return &RefusedError{Host: host, Addr: to, Reason: "its port is not open" + remedy}
	}
	reason := "it is " + describe(a, c)
	if c != forbidden {
		reason += remedy
	}
	return &RefusedError{Host: host, Addr: to, Reason: reason}
}

// hasExactPrefix returns whether a rule with a prefix of the given length contains the address.
func (p *Policy) hasExactPrefix(a netip.Addr, port uint16, bits int) bool {
	for _, r := range p.o.Allow {
		if r.prefix.IsValid() && r.prefix.Bits() == bits && r.prefix.Contains(a) &&
			(r.ports == nil || r.ports.Contains(port)) {
			return true
		}
	}
	return false
}

// Resolver resolves a name; *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolve returns the allowed addresses of a host at a port, for a connection made by another
// library. If none is allowed, the error is a *RefusedError. A nil resolver is the system's.
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

// Has returns whether the policy contains a rule with exactly this text.
func (p *Policy) Has(rule string) bool {
	return slices.ContainsFunc(
		p.o.Allow,
		func(r Rule) bool { return r.text == strings.TrimSpace(rule) },
	)
}
