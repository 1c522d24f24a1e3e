package egress_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen accepts connections and sends each a greeting.
func listen(t *testing.T) (address, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return l.Addr().String(), port
}

func dialer(t *testing.T, p *egress.Policy, o egress.DialerOptions) *egress.Dialer {
	t.Helper()
	d, err := egress.NewDialer(p, o)
	require.NoError(t, err)
	return d
}

func greeting(t *testing.T, c net.Conn) string {
	t.Helper()
	defer func() { _ = c.Close() }()
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

func TestTheDialerObeysItsPolicy(t *testing.T) {
	t.Parallel()
	address, port := listen(t)
	d := dialer(
		t,
		policy(t, egress.Options{}, "127.0.0.1:"+port, "localhost:"+port),
		egress.DialerOptions{},
	)
	for _, a := range []string{address, "localhost:" + port, "[::ffff:127.0.0.1]:" + port} {
		c, err := d.DialContext(t.Context(), "tcp", a)
		require.NoError(t, err, a)
		require.Equal(t, "hello", greeting(t, c))
	}
	strict := dialer(t, policy(t, egress.Options{}), egress.DialerOptions{})
	for _, a := range []string{address, "localhost:" + port, "[::1]:80", "127.1:80", "2130706433:80", "0x7f.0.0.1:80", "0:80", "169.254.169.254:80"} {
		_, err := strict.DialContext(t.Context(), "tcp", a)
		require.Error(t, err, a)
		var refused *egress.RefusedError
		var dns *net.DNSError
		require.True(t, errorsAs(err, &refused) || errorsAs(err, &dns), "%s: %v", a, err)
	}
	var refused *egress.RefusedError
	_, err := d.DialContext(t.Context(), "udp", address)
	require.ErrorAs(t, err, &refused)
	_, err = d.DialContext(t.Context(), "unix", "/tmp/x:1")
	require.ErrorAs(t, err, &refused)
	_, err = d.DialContext(t.Context(), "tcp", "no port")
	require.Error(t, err)
	require.NotNil(t, d.Policy())
}

// TestANameThatResolvesToAnotherAddress covers a name that resolves to a public address when it is
// checked and to a private one when it is dialled.
func TestANameThatResolvesToAnotherAddress(t *testing.T) {
	t.Parallel()
	_, port := listen(t)
	resolver := &net.Resolver{
		PreferGo: true,
		Dial:     func(context.Context, string, string) (net.Conn, error) { return dns(t, "127.0.0.1"), nil },
	}
	d := dialer(
		t,
		policy(t, egress.Options{}, "*:*"),
		egress.DialerOptions{Resolver: resolver, Timeout: 5 * time.Second},
	)
	_, err := d.DialContext(t.Context(), "tcp", "rebind.example.:"+port)
	var refused *egress.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "rebind.example", refused.Host)
	require.Equal(t, "127.0.0.1:"+port, refused.Addr.String())
}

// TestAnAllowedAddressIsDownBesideARefusedOne covers a name with two addresses, of which one may be
// called. While that one accepts no connection, the host is down, and not forbidden.
func TestAnAllowedAddressIsDownBesideARefusedOne(t *testing.T) {
	t.Parallel()
	address, port := listen(t)
	down, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, closed, err := net.SplitHostPort(down.Addr().String())
	require.NoError(t, err)
	require.NoError(t, down.Close())
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return dns(t, "127.0.0.2", "127.0.0.1"), nil
		},
	}
	d := dialer(
		t,
		policy(t, egress.Options{}, "127.0.0.1:"+port, "127.0.0.1:"+closed),
		egress.DialerOptions{Resolver: resolver, Timeout: 5 * time.Second},
	)
	c, err := d.DialContext(t.Context(), "tcp", "two.example.:"+port)
	require.NoError(t, err)
	require.Equal(t, address, c.RemoteAddr().String())
	require.Equal(t, "hello", greeting(t, c))

	_, err = d.DialContext(t.Context(), "tcp", "two.example.:"+closed)
	var refused *egress.RefusedError
	require.False(t, errorsAs(err, &refused), "%v", err)
	var dial *net.OpError
	require.ErrorAs(t, err, &dial)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.DialContext(ctx, "tcp", "two.example.:"+closed)
	require.ErrorIs(t, err, context.Canceled)
}

func TestADialerNeedsAPolicy(t *testing.T) {
	t.Parallel()
	_, err := egress.NewDialer(nil, egress.DialerOptions{})
	require.ErrorContains(t, err, "no policy")
}
