package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
)

// all returns the loosest possible policy: rules open everything.
func all(t *testing.T, own *egress.OwnListeners) *egress.Policy {
	t.Helper()
	return policy(
		t,
		egress.Options{
			AllowPrivate:  true,
			AllowLoopback: true,
			OwnListeners:  own,
			Ports:         egress.Ports{{First: 1, Last: 65535}},
		},
		"*:*",
		"0.0.0.0/0:*",
		"[::/0]:*",
		"127.0.0.1:*",
		"[::1]:*",
		"0.0.0.0:*",
		"localhost:*",
		"64:ff9b::/96",
		"[64:ff9b::127.0.0.1]:*",
	)
}

// TestOwnListenersAreNeverOpen checks that a listener is refused on every address that leads to it,
// and nothing else is.
func TestOwnListenersAreNeverOpen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		bound, to string
		own       bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", true},
		{"127.0.0.1:8080", "0.0.0.0:8080", true}, // for the kernel also loopback
		{"127.0.0.1:8080", "[::]:8080", true},
		{"127.0.0.1:8080", "[64:ff9b::127.0.0.1]:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:8081", false},
		{"127.0.0.1:8080", "127.0.0.2:8080", false}, // another listener's address
		{"127.0.0.1:8080", "10.1.2.3:8080", false},
		{"0.0.0.0:8080", "127.0.0.1:8080", true},
		{"0.0.0.0:8080", "127.99.0.1:8080", true},
		{"[::]:8080", "127.0.0.1:8080", true},
		{"[::]:8080", "[::1]:8080", true},
		{"[::]:8080", "10.1.2.3:8080", true}, // an interface's address
		{"[::]:8080", "[::ffff:10.1.2.3]:8080", true},
		{"[::]:8080", "[fe80::7%eth0]:8080", true},
		{"[::]:8080", "10.1.2.4:8080", false},
		{"[::]:8080", "10.1.2.3:8081", false},
		{"10.1.2.3:8080", "10.1.2.3:8080", true},
		{"10.1.2.3:8080", "127.0.0.1:8080", false},
		{"[::1]:8080", "[::1]:8080", true},
		{"[::ffff:10.1.2.3]:8080", "10.1.2.3:8080", true},
	}
	for _, tt := range tests {
		t.Run(tt.bound+" "+tt.to, func(t *testing.T) {
			t.Parallel()
			own := egress.OwnListenersOn(func() ([]net.Addr, error) {
				return []net.Addr{
					&net.IPNet{
						IP:   net.ParseIP("10.1.2.3"),
						Mask: net.CIDRMask(24, 32),
					},
					&net.IPNet{IP: net.ParseIP("fe80::7"), Mask: net.CIDRMask(64, 128)},
				}, nil
			})
			own.Add(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.bound)), nil)
			require.Equal(t, !tt.own, open(all(t, own), "localhost", tt.to))
			if rule, err := egress.ParseRule("localhost:*"); err == nil {
				require.Equal(
					t,
					!tt.own,
					open(all(t, own).With(rule), "localhost", tt.to),
					"an app's rules open no more",
				)
			}
			_, err := all(
				t,
				own,
			).Resolve(t.Context(), nil, netip.MustParseAddrPort(tt.to).Addr().String(), netip.MustParseAddrPort(tt.to).Port())
			require.Equal(t, tt.own, err != nil, "nor is it a Pulsar's: %v", err)
		})
	}
	blind := egress.OwnListenersOn(
		func() ([]net.Addr, error) { return nil, errors.New("no interfaces") },
	)
	blind.Add(&net.TCPAddr{Port: 8080}, nil)
	require.False(
		t,
		open(all(t, blind), "", "10.9.9.9:8080"),
		"what cannot be known to be another's is not called",
	)
	require.True(t, open(all(t, blind), "", "10.9.9.9:8081"))
	var none egress.OwnListeners
	none.Add(&net.UnixAddr{Name: "x", Net: "unix"}, nil)
	require.True(t, open(all(t, &none), "", "10.9.9.9:8080"))
}

// TestOwnListenersAreNeverDialled checks the real socket address, on each address of this host.
func TestOwnListenersAreNeverDialled(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	own := new(egress.OwnListeners)
	own.Add(l.Addr(), nil)
	d := dialer(t, all(t, own), egress.DialerOptions{})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	hosts := []string{
		"localhost",
		"127.0.0.1",
		"127.3.2.1",
		"::1",
		"::ffff:127.0.0.1",
		"0.0.0.0",
		"::",
	}
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		hosts = append(hosts, netip.MustParsePrefix(a.String()).Addr().String())
	}
	for _, host := range hosts {
		_, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		var refused *egress.RefusedError
		require.ErrorAs(t, err, &refused, host)
		require.Contains(t, refused.Reason, "Carillon's own", host)
	}
	other, _ := listen(t)
	c, err := d.DialContext(t.Context(), "tcp", other)
	require.NoError(t, err)
	require.Equal(t, "hello", greeting(t, c))
}

// TestEchoStandsInForItsListener checks that callers of a listener with an echo endpoint reach that
// endpoint, whatever name they use.
func TestEchoStandsInForItsListener(t *testing.T) {
	t.Parallel()
	address, port := listen(t)
	at, err := net.ResolveTCPAddr("tcp", address)
	require.NoError(t, err)
	own := new(egress.OwnListeners)
	own.Add(at, &egress.Echo{Path: "/echo", Dial: func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = server.Write([]byte("echo")); _ = server.Close() }()
		return client, nil
	}})
	p := policy(t, egress.Options{OwnListeners: own})
	d := dialer(t, p, egress.DialerOptions{})
	for _, a := range []string{address, "localhost:" + port, "[::ffff:127.0.0.1]:" + port} {
		c, err := d.DialContext(t.Context(), "tcp", a)
		require.NoError(t, err, a)
		require.Equal(t, "echo", greeting(t, c))
	}
	to := netip.MustParseAddrPort(address)
	require.NoError(t, p.CheckDialed("", to, "/echo"))
	require.NoError(t, p.CheckOwn("", to, "/echo"))
	for _, path := range []string{"", "/", "/api", "/echo/"} {
		require.ErrorContains(t, p.CheckDialed("", to, path), "Carillon's own", path)
		require.ErrorContains(t, p.CheckOwn("", to, path), "Carillon's own", path)
	}
	require.NoError(t, p.CheckOwn("", netip.MustParseAddrPort("127.0.0.1:1"), "/"), "not its own")
	require.Error(
		t,
		p.Check("", to),
		"who does not dial by the dialer would reach the listener itself",
	)
	require.Error(
		t,
		p.CheckDialed("", netip.MustParseAddrPort("127.0.0.1:1"), "/echo"),
		"loopback stays closed",
	)
}

func TestCallbacksAreKnown(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.False(t, egress.IsCallback(r))
	r.Header.Set("Carillon-Fire-Id", "1-2")
	require.True(t, egress.IsCallback(r))
	r.Header = http.Header{egress.HeaderTokenRequest: {"1"}}
	require.True(t, egress.IsCallback(r))
}
