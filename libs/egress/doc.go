// Package egress decides which addresses callbacks may reach, and dials only those.
//
// # What is refused unless a rule allows it
//
// Refused are loopback, private, shared (CGNAT), link-local, unique-local, multicast, broadcast,
// unspecified, documentation, benchmarking and all other ranges of the IANA special-purpose
// registries. Refused are also the metadata services of the clouds, including those on public
// addresses. IPv6 forms that carry an IPv4 address (compatible, NAT64, 6to4, Teredo) are refused;
// for a mapped form the IPv4 address decides. Of public addresses only the policy's ports are open,
// 80 and 443 by default.
//
// # When
//
// The check happens after name resolution, on the address to which the socket is about to connect.
// A name therefore cannot resolve to another address in between. Everything that uses a Dialer is
// checked: redirects, token URLs and grpc alike. Connections are direct: there is no proxy, and
// none is taken from the environment.
//
// # Carillon itself
//
// Listeners of this process (OwnListeners) are never dialled, on any of their addresses, whatever
// the rules say. Listeners of other processes recognize a callback by its header (IsCallback) and
// refuse it.
//
// # Rules
//
// A rule is "<what>" or "<what>:<ports>". what is an address, a CIDR, a host name, "*.domain"
// (names below it) or "*" (any public address). ports is "*", a port, or ranges ("8000-8100,9000");
// without ports the policy's apply. IPv6 with ports is written in brackets. A host rule opens every
// address that the name resolves to, except metadata services, multicast and the unspecified
// address. It therefore trusts the operator of the name's DNS. Those three need a rule by CIDR.
//
// # Files
//
//	policy.go        decides whether an address may be reached
//	rule.go          reads and matches the rules that open addresses
//	ranges.go        the kinds of addresses that are refused by default
//	dialer.go        dials only what the policy allows
//	ownlisteners.go  listeners of this process, which no rule opens
//	topics.go        where pulsar targets may publish
package egress
