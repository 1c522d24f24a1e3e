package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
)

func policy(t testing.TB, o egress.Options, rules ...string) *egress.Policy {
	t.Helper()
	var err error
	o.Allow, err = egress.ParseRules(rules)
	require.NoError(t, err)
	return egress.NewPolicy(o)
}

func open(p *egress.Policy, host, address string) bool {
	return p.Check(host, netip.MustParseAddrPort(address)) == nil
}

// closed has an address of every kind that is refused unless a rule opens it.
var closed = []string{
	// loopback.
	"127.0.0.1:80",
	"127.255.255.254:80",
	"[::1]:80",
	"[::ffff:127.0.0.1]:80",
	"[::127.0.0.1]:80",
	"0.0.0.0:80",
	"[::]:80",
	"0.1.2.3:80",
	"[::ffff:0.0.0.0]:80", // unspecified
	// private.
	"10.0.0.1:80",
	"172.16.0.1:80",
	"172.31.255.255:80",
	"192.168.1.1:80",
	"[::ffff:10.0.0.1]:443",
	"[::ffff:c0a8:101]:443",
	"100.64.0.1:80",
	"100.127.255.255:443", // CGNAT
	// link-local, site-local.
	"169.254.0.1:80",
	"[fe80::1]:80",
	"[fe80::1%eth0]:80",
	"[febf::1]:80",
	"[fec0::1]:80",
	"[fc00::1]:80",
	"[fd12:3456::1]:443", // unique-local
	// metadata.
	"169.254.169.254:80",
	"[::ffff:169.254.169.254]:80",
	"169.254.170.2:80",
	"[fd00:ec2::254]:80",
	"[fd20:ce::254]:80",
	"100.100.100.200:80",
	"192.0.0.192:80",
	"168.63.129.16:80",
	"169.254.42.42:80",
	"169.254.0.23:80",
	"[fd00:c1::a9fe:a9fe]:80",
	"[fd00:42::42]:80",
	// multicast, broadcast.
	"224.0.0.1:80",
	"239.255.255.250:80",
	"[ff02::1]:80",
	"255.255.255.255:80",
	// special-purpose.
	"192.0.2.1:80",
	"198.51.100.1:80",
	"203.0.113.1:443",
	"198.18.0.1:80",
	"240.0.0.1:80",
	"192.0.0.1:80",
	"192.88.99.1:80",
	"[2001:db8::1]:80",
	"[3fff::1]:80",
	"[2001::1]:80",
	"[2001:20::1]:80",
	"[100::1]:80",
	"[5f00::1]:80",
	"[4000::1]:80",
	"[64:ff9b::10.0.0.1]:80",
	"[64:ff9b::8.8.8.8]:80",
	"[64:ff9b:1::8.8.8.8]:80", // NAT64
	// 6to4, Teredo.
	"[2002:0a00:0001::1]:80",
	"[2002:0808:0808::1]:80",
	"[2001:0:4136:e378:8000:63bf:3fff:fdd2]:80",
	"8.8.8.8:22",
	"8.8.8.8:8080",
	"[2606:4700::1111]:6443", // ports
}

func TestTheStrictPolicy(t *testing.T) {
	t.Parallel()
	p := egress.NewPolicy(egress.Options{})
	for _, a := range closed {
		err := p.Check("a.example", netip.MustParseAddrPort(a))
		var refused *egress.RefusedError
		require.ErrorAs(t, err, &refused, a)
		require.Contains(t, err.Error(), "a.example", a)
	}
	for _, a := range []string{"8.8.8.8:80", "1.1.1.1:443", "[2606:4700::1111]:443", "[2a00:1450::1]:80", "[::ffff:8.8.8.8]:443", "172.32.0.1:80", "100.128.0.1:80", "11.0.0.1:80"} {
		require.True(t, open(p, "", a), a)
	}
	require.Error(t, p.Check("", netip.AddrPort{}))
	require.Error(t, p.Check("", netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), 0)))
}

// TestRefusalSaysWhatTheAddressIs checks the reasons, which people read.
func TestRefusalSaysWhatTheAddressIs(t *testing.T) {
	t.Parallel()
	p := egress.NewPolicy(egress.Options{})
	const allow = "; an operator may allow it by carillon app allow, or by callback-allow for all apps"
	for address, want := range map[string]string{
		"0.0.0.0:80":              "it is the unspecified address",
		"[::]:80":                 "it is the unspecified address",
		"255.255.255.255:80":      "it is the broadcast address",
		"224.0.0.1:80":            "it is a multicast address",
		"[ff02::1]:80":            "it is a multicast address",
		"[64:ff9b:1::1]:80":       "it is an address of NAT64 that may lead anywhere",
		"169.254.169.254:80":      "it is the address of a metadata service",
		"[fd00:ec2::254]:80":      "it is the address of a metadata service",
		"[64:ff9b::a9fe:a9fe]:80": "it is a special-purpose address" + allow,
		"127.0.0.1:80":            "it is a loopback address" + allow,
		"10.0.0.1:80":             "it is a private address" + allow,
		"8.8.8.8:22":              "its port is not open" + allow,
	} {
		var refused *egress.RefusedError
		require.ErrorAs(t, p.Check("", netip.MustParseAddrPort(address)), &refused, address)
		require.Equal(t, want, refused.Reason, address)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		rule          string
		host, address string
		open          bool
	}{
		{"a network", "10.0.0.0/8", "", "10.1.2.3:443", true},
		{"a network, another port", "10.0.0.0/8", "", "10.1.2.3:8443", false},
		{"a network with ports", "10.0.0.0/8:8000-8999,9443", "", "10.1.2.3:8443", true},
		{"its last port", "10.0.0.0/8:8000-8999,9443", "", "10.1.2.3:9443", true},
		{"not 443 then", "10.0.0.0/8:8000-8999,9443", "", "10.1.2.3:443", false},
		{"any port", "10.0.0.0/8:*", "", "10.1.2.3:1", true},
		{"a network that is not masked", "10.1.2.3/8:*", "", "10.9.9.9:1", true},
		{"another network", "10.0.0.0/8:*", "", "11.0.0.1:22", false},
		{"its mapped form", "10.0.0.0/8", "", "[::ffff:10.1.2.3]:443", true},
		{"an address", "10.1.2.3:8443", "", "10.1.2.3:8443", true},
		{"the next address", "10.1.2.3:8443", "", "10.1.2.4:8443", false},
		{"an IPv6 network", "fd00:1::/32", "", "[fd00:1::7]:443", true},
		{"an IPv6 network with a port", "[fd00:1::/32]:8443", "", "[fd00:1::7]:8443", true},
		{
			"an IPv6 network with a port, the other way",
			"[fd00:1::]/32:8443",
			"",
			"[fd00:1::7]:8443",
			true,
		},
		{"an IPv6 address", "::1", "", "[::1]:80", true},
		{"a host", "hooks.corp.example:8443", "hooks.corp.example", "10.1.2.3:8443", true},
		{
			"a host, in other letters",
			"Hooks.Corp.Example.:8443",
			"hooks.CORP.example.",
			"10.1.2.3:8443",
			true,
		},
		{"another host", "hooks.corp.example:8443", "evil.example", "10.1.2.3:8443", false},
		{
			"a host does not open metadata",
			"hooks.corp.example",
			"hooks.corp.example",
			"169.254.169.254:80",
			false,
		},
		{
			"nor that of IPv6",
			"hooks.corp.example",
			"hooks.corp.example",
			"[fd00:ec2::254]:80",
			false,
		},
		{
			"nor the unspecified address",
			"hooks.corp.example",
			"hooks.corp.example",
			"0.0.0.0:80",
			false,
		},
		{"a network does", "169.254.169.254", "", "169.254.169.254:80", true},
		{"names below a domain", "*.corp.example", "a.b.corp.example", "192.168.0.1:80", true},
		{"the domain itself", "*.corp.example", "corp.example", "192.168.0.1:80", false},
		{"a name that only ends so", "*.corp.example", "evilcorp.example", "192.168.0.1:80", false},
		{"localhost", "localhost:*", "localhost", "127.0.0.1:1234", true},
		{"public addresses on any port", "*:*", "", "8.8.8.8:22", true},
		{"and no others", "*:*", "", "10.0.0.1:22", false},
		{"NAT64", "64:ff9b::/96", "", "[64:ff9b::8.8.8.8]:443", true},
		{
			"what is behind NAT64 must be open itself",
			"64:ff9b::/96",
			"",
			"[64:ff9b::10.0.0.1]:443",
			false,
		},
		{"and metadata behind it", "64:ff9b::/96", "", "[64:ff9b::169.254.169.254]:80", false},
		{"6to4", "2002::/16", "", "[2002:0a00:0001::1]:80", false},
		{"6to4 to a public address", "2002::/16", "", "[2002:0808:0808::1]:80", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(
				t,
				tt.open,
				open(policy(t, egress.Options{}, tt.rule), tt.host, tt.address),
			)
		})
	}
	for _, bad := range []string{"", "10.0.0.0/33", "1.2.3", "10.0.0.1:0", "10.0.0.1:x", "10.0.0.1:9-8", "a b", "a..b", "[::1", "fe80::1%eth0", "http://a", "-a.example", "a:b:c:d/x", "*.", "1.2.3.4.5:80", "10.0.0.1:70000"} {
		_, err := egress.ParseRule(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestLooserPolicies(t *testing.T) {
	t.Parallel()
	loopback := policy(t, egress.Options{AllowLoopback: true})
	require.True(t, open(loopback, "", "127.0.0.1:1234"))
	require.True(t, open(loopback, "", "[::1]:1234"))
	require.False(t, open(loopback, "", "10.0.0.1:80"))
	require.False(t, open(loopback, "", "0.0.0.0:80"))
	private := policy(t, egress.Options{AllowPrivate: true})
	for _, a := range []string{"127.0.0.1:1", "10.0.0.1:2", "[fd12::1]:3", "100.64.0.1:4", "169.254.1.1:5", "8.8.8.8:22", "198.51.100.1:99"} {
		require.True(t, open(private, "", a), a)
	}
	for _, a := range []string{"169.254.169.254:80", "[::ffff:a9fe:a9fe]:80", "[64:ff9b::a9fe:a9fe]:80", "0.0.0.0:80", "224.0.0.1:80", "100.100.100.200:80", "168.63.129.16:80"} {
		require.False(t, open(private, "", a), a)
	}
	named := policy(t, egress.Options{}, "hooks.corp.example")
	for _, a := range []string{"[fd00:c1::a9fe:a9fe]:80", "169.254.42.42:80", "[fd00:42::42]:80", "169.254.0.23:80", "[64:ff9b:1::a9fe:a9fe]:80", "[64:ff9b:1:a9fe:a9:fe00::]:80"} {
		require.False(t, open(private, "", a), a)
		require.False(t, open(named, "hooks.corp.example", a), a)
	}
	ports := policy(t, egress.Options{Ports: egress.Ports{{First: 1, Last: 65535}}})
	require.True(t, open(ports, "", "8.8.8.8:22"))
	require.False(t, open(ports, "", "10.0.0.1:22"))
}

func TestPoliciesThatSayTheSameHaveTheSameKey(t *testing.T) {
	t.Parallel()
	a := policy(t, egress.Options{}, "10.0.0.0/8")
	rule, err := egress.ParseRule("10.0.0.0/8")
	require.NoError(t, err)
	require.Equal(t, a.Key(), egress.NewPolicy(egress.Options{}).With(rule).Key())
	require.NotEqual(t, a.Key(), policy(t, egress.Options{}).Key())
	require.NotEqual(t, a.Key(), policy(t, egress.Options{AllowPrivate: true}, "10.0.0.0/8").Key())
	require.Same(t, a, a.With())
	b := a.With(rule)
	require.True(t, open(b, "", "10.0.0.1:80"))
	require.Equal(t, "10.0.0.0/8", rule.String())
}

// answers resolves names from a table.
type answers map[string][]string

func (a answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range a[host] {
		out = append(out, netip.MustParseAddr(s))
	}
	if out == nil {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}
	return out, nil
}

func TestResolve(t *testing.T) {
	t.Parallel()
	p := policy(t, egress.Options{})
	r := answers{"mixed": {"10.0.0.1", "8.8.8.8", "::ffff:8.8.4.4"}, "inside": {"10.0.0.1"}}
	got, err := p.Resolve(t.Context(), r, "mixed", 443)
	require.NoError(t, err)
	require.Equal(
		t,
		[]netip.AddrPort{
			netip.MustParseAddrPort("8.8.8.8:443"),
			netip.MustParseAddrPort("8.8.4.4:443"),
		},
		got,
	)
	_, err = p.Resolve(t.Context(), r, "inside", 443)
	var refused *egress.RefusedError
	require.ErrorAs(t, err, &refused)
	_, err = p.Resolve(t.Context(), r, "169.254.169.254", 80)
	require.ErrorAs(t, err, &refused)
	_, err = p.Resolve(t.Context(), r, "nowhere", 443)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
}

// FuzzAgainstAnotherGuard checks that everything refused by another library is refused here.
func FuzzAgainstAnotherGuard(f *testing.F) {
	other := ssrf.New()
	p := egress.NewPolicy(egress.Options{})
	for _, a := range closed {
		ap := netip.MustParseAddrPort(a)
		f.Add(ap.Addr().AsSlice(), ap.Port())
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		a, ok := netip.AddrFromSlice(b)
		if !ok || port == 0 {
			return
		}
		to := netip.AddrPortFrom(a, port)
		network := "tcp6"
		if a.Unmap().Is4() {
			network, to = "tcp4", netip.AddrPortFrom(a.Unmap(), port)
		}
		theirs := other.Safe(network, to.String(), nil)
		ours := p.Check("", to)
		if theirs != nil && ours == nil {
			t.Fatalf("%s: %v, and we let it pass", to, theirs)
		}
		if ours != nil && theirs == nil && errors.Is(ours, errors.ErrUnsupported) {
			t.Fatal(ours)
		}
	})
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8:80", "[::1]/128:*", "*.a.example:1-2", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := egress.ParseRule(s)
		if err != nil {
			return
		}
		again, err := egress.ParseRule(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		// Only a rule with the metadata address opens it.
		p := egress.NewPolicy(egress.Options{Allow: []egress.Rule{r}})
		if open(p, "metadata.example", "169.254.169.254:80") {
			require.NotContains(t, s, "example")
		}
	})
}
