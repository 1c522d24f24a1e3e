// Package egress decides which addresses callbacks may reach, and dials only those.
//
// # What is refused unless a rule allows it
//
// Loopback, private, shared (CGNAT), link-local, unique-local, multicast, broadcast, unspecified,
// documentation, benchmarking and every other range of the IANA special-purpose registries, the
// metadata services of the clouds (also those on public addresses), and IPv6 forms that carry an
// IPv4 address (mapped, compatible, NAT64, 6to4, Teredo): of a mapped form the IPv4 address
// decides, the others are refused. Of public addresses only the policy's ports are open, 80 and 443
// by default.
//
// # When
//
// The address is checked that the socket is about to connect to, after resolution: a name cannot
// change its mind in between. Whoever dials by a Dialer is guarded: redirects, token URLs and grpc
// alike. Connections are direct: there is no proxy, and none is taken from the environment.
//
// # Carillon itself
//
// Listeners of this process (Own) are never dialled, on any address of theirs, whatever the rules
// say. Those of other processes know a callback by its header (IsCallback) and refuse it.
//
// # Rules
//
// A rule is "<what>" or "<what>:<ports>", where what is an address, a CIDR, a host name, "*.domain"
// (names below it) or "*" (any public address), and ports is "*", a port, or ranges
// ("8000-8100,9000"); IPv6 stands in brackets where ports follow. Without ports the policy's hold.
// A host rule opens whatever the name resolves to, but for metadata services, multicast and the
// unspecified address: who trusts a name trusts whoever runs its DNS. Those three need a rule by
// CIDR.
package egress
