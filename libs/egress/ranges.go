package egress

import "net/netip"

// class is the kind of an address.
type class uint8

const (
	public   class = iota
	loopback       // this machine
	private        // private, shared, link-local and unique-local networks
	special        // all other ranges that are not public
	// Metadata services, multicast, broadcast, unspecified. Only a rule by CIDR opens them.
	forbidden
)

var classNames = [...]string{
	"a public address",
	"a loopback address",
	"a private address",
	"a special-purpose address",
	"the address of a metadata service",
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// describe says what an address of a class is.
func describe(a netip.Addr, c class) string {
	switch {
	case c != forbidden:
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsMulticast():
		return "a multicast address"
	case a == broadcast:
		return "the broadcast address"
	case localNAT64.Contains(a):
		return "an address of NAT64 that may lead anywhere"
	}
	return classNames[c]
}

type block struct {
	prefix netip.Prefix
	class  class
}

// Ranges of the IANA special-purpose registries, and the metadata services of the clouds. The first
// match counts.
var (
	blocks4 = blocks(
		// AWS, Google, Azure and others; AWS tasks.
		forbidden,
		"169.254.169.254/32",
		"169.254.170.2/32",
		"169.254.170.23/32",
		// Alibaba, Oracle, Azure.
		forbidden,
		"100.100.100.200/32",
		"192.0.0.192/32",
		"168.63.129.16/32",
		// Scaleway, Tencent.
		forbidden,
		"169.254.42.42/32",
		"169.254.0.23/32",
		forbidden,
		"224.0.0.0/4",
		"255.255.255.255/32",
		"0.0.0.0/32",
		loopback,
		"127.0.0.0/8",
		private,
		"10.0.0.0/8",
		"172.16.0.0/12",
		"192.168.0.0/16",
		"100.64.0.0/10",
		"169.254.0.0/16",
		special,
		"0.0.0.0/8",
		"192.0.0.0/24",
		"192.0.2.0/24",
		"192.88.99.0/24",
		"198.18.0.0/15",
		"198.51.100.0/24",
		"203.0.113.0/24",
		"240.0.0.0/4",
		special,
		"192.31.196.0/24",
		"192.52.193.0/24",
		"192.175.48.0/24",
	)
	blocks6 = blocks(
		// AWS, AWS tasks, Google, Oracle, Scaleway.
		forbidden, "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
		"fd00:c1::a9fe:a9fe/128", "fd00:42::42/128",
		// NAT64 of a network's own (RFC 8215). Where the IPv4 address is in it depends on the length of
		// the prefix there, so it could lead to a metadata service.
		forbidden, localNAT64.String(),
		forbidden, "ff00::/8", "::/128",
		loopback, "::1/128",
		private, "fc00::/7", "fe80::/10", "fec0::/10",
		special, "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
		// All addresses ever assigned; NAT64, compatible and all others are outside.
		public, "2000::/3",
		special, "::/0",
	)
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	nat64      = []netip.Prefix{
		netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("::/96"),
	}
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// blocks converts a list of classes, each followed by its prefixes.
func blocks(list ...any) []block {
	var out []block
	var c class
	for _, x := range list {
		switch x := x.(type) {
		case class:
			c = x
		case string:
			out = append(out, block{netip.MustParsePrefix(x), c})
		}
	}
	return out
}

// classOf returns the class of an address. For an IPv4 address mapped to IPv6, the IPv4 address
// decides.
func classOf(a netip.Addr) class {
	a = a.WithZone("").Unmap()
	list := blocks6
	if a.Is4() {
		list = blocks4
	}
	for _, b := range list {
		if b.prefix.Contains(a) {
			return b.class
		}
	}
	return public // IPv4 outside all registries; the IPv6 list ends with ::/0
}

// embeddedIPv4 returns the IPv4 address to which an IPv6 address leads through a translator or a
// tunnel.
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	for _, p := range nat64 {
		if p.Contains(a) {
			return netip.AddrFrom4([4]byte(b[12:])), true
		}
	}
	if sixTo4.Contains(a) {
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
