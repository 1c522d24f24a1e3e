package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rule opens addresses that are closed by default. Create one with ParseRule.
type Rule struct {
	text   string
	prefix netip.Prefix // valid: the rule is by address
	// host is a name in lower case, ".domain" for the names below it, or "*" for any public
	// address.
	host  string
	ports Ports // nil: the policy's
}

// String returns the rule as it was written.
func (r Rule) String() string { return r.text }

// ParseRule parses a rule. The package comment describes the syntax.
func ParseRule(text string) (Rule, error) {
	what, ports, err := splitRule(strings.TrimSpace(text))
	if err != nil {
		return Rule{}, fmt.Errorf("%q is not a rule: %w", text, err)
	}
	r := Rule{text: strings.TrimSpace(text), ports: ports}
	if p, err := netip.ParsePrefix(what); err == nil {
		r.prefix = p.Masked()
		return r, nil
	}
	if a, err := netip.ParseAddr(what); err == nil {
		a = a.Unmap()
		if a.Zone() != "" {
			return Rule{}, fmt.Errorf("%q is not a rule: an address has no zone here", text)
		}
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return r, nil
	}
	host := strings.ToLower(strings.TrimSuffix(what, "."))
	name := strings.TrimPrefix(host, "*.")
	if what != "*" && !validHost(name) {
		return Rule{}, fmt.Errorf(
			"%q is not a rule: %q is no address, CIDR or host name",
			text,
			what,
		)
	}
	r.host = host
	if name != host {
		r.host = "." + name
	}
	return r, nil
}

// ParseRules parses several rules, and returns the first error.
func ParseRules(texts []string) ([]Rule, error) {
	out := make([]Rule, 0, len(texts))
	for _, t := range texts {
		r, err := ParseRule(t)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// splitRule splits "<what>:<ports>". Brackets enclose an IPv6 address or CIDR. Text with several
// colons and no brackets has no ports.
func splitRule(s string) (what string, ports Ports, err error) {
	portText, found := "", false
	switch {
	case strings.HasPrefix(s, "["):
		in, after, ok := strings.Cut(s[1:], "]")
		if !ok {
			return "", nil, errors.New("no ] after [")
		}
		bits, rest, hasPorts := strings.Cut(after, ":")
		what, portText, found = in+bits, rest, hasPorts
	case strings.Count(s, ":") == 1:
		what, portText, found = strings.Cut(s, ":")
	default:
		what = s
	}
	if found {
		ports, err = ParsePorts(portText)
	}
	return what, ports, err
}

func validHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	letters := false
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			digit := '0' <= c && c <= '9'
			letter := 'a' <= c && c <= 'z' || c == '-' || c == '_'
			if !letter && !digit {
				return false
			}
			letters = letters || letter
		}
	}
	return letters // without a letter it is a malformed address
}

// matches returns whether the rule covers a destination. host is in lower case without a final dot.
func (r *Rule) matches(host string, a netip.Addr, c class) bool {
	switch {
	case r.prefix.IsValid():
		return r.prefix.Contains(a)
	case c == forbidden:
		return false
	case r.host == "*":
		return c == public
	case r.host[0] == '.':
		return strings.HasSuffix(host, r.host)
	}
	return host == r.host
}

// Ports is a set of ports.
type Ports []PortRange

// PortRange is the ports from First to Last, both included.
type PortRange struct{ First, Last uint16 }

// ParsePorts parses "443", "80,443,8000-8100" or "*".
func ParsePorts(s string) (Ports, error) {
	if s == "*" {
		return Ports{{1, 65535}}, nil
	}
	var out Ports
	for p := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(p), "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || a == 0 || a > b {
			return nil, fmt.Errorf("%q is not a port or a range of ports", p)
		}
		out = append(out, PortRange{uint16(a), uint16(b)})
	}
	return out, nil
}

// Contains returns whether a port is in the set.
func (p Ports) Contains(port uint16) bool {
	for _, r := range p {
		if r.First <= port && port <= r.Last {
			return true
		}
	}
	return false
}
