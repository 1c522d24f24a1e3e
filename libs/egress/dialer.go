package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// TCP finds out within 12 s that the host of a connection is gone while no call uses the connection,
// or while one waits for its answer. So the third attempt of the default retry policy, 13 s after
// the first, finds no dead connection, whatever the protocol. TCP_USER_TIMEOUT would be sooner if a
// request was sent. But it also ends a call to a receiver that does not read a large body for as
// long.
const (
	keepAliveIdle     = 6 * time.Second // until the first probe
	keepAliveInterval = 2 * time.Second // until the next one, and after the last
	keepAliveCount    = 3               // probes without a reply
)

// DialerOptions configure a dialer. The zero value dials within 5 s.
type DialerOptions struct {
	Timeout  time.Duration // of name resolution and connect together; default 5 s
	Resolver *net.Resolver // nil: the system's
}

// Dialer dials only what a policy allows. It is safe for concurrent use.
type Dialer struct {
	policy *Policy
	o      DialerOptions
}

// NewDialer returns a dialer with a policy.
func NewDialer(p *Policy, o DialerOptions) (*Dialer, error) {
	if p == nil {
		return nil, errors.New("options of the dialer: no policy")
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	return &Dialer{policy: p, o: o}, nil
}

// DialContext connects to "host:port" over "tcp", "tcp4" or "tcp6". For a forbidden destination the
// error is a *RefusedError. If the destination is a listener of this process with an echo endpoint,
// it connects to that endpoint instead.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(network, "tcp") {
		return nil, &RefusedError{Host: host, Reason: "only TCP is dialled"}
	}
	// Two address families may be dialled concurrently.
	var echo atomic.Pointer[Echo]
	var allowed atomic.Bool // one of the host's addresses may be called
	dialer := net.Dialer{
		Timeout: d.o.Timeout, Resolver: d.o.Resolver,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return &RefusedError{Host: host, Reason: "its address cannot be read"}
			}
			if l, own := d.policy.o.OwnListeners.find(to); own && l.echo != nil {
				echo.Store(l.echo)
			}
			if err := d.policy.Check(host, to); err != nil {
				return err
			}
			allowed.Store(true)
			return nil
		},
	}
	conn, err := dialer.DialContext(ctx, network, addr)
	if e := echo.Load(); err != nil && e != nil {
		return e.Dial(ctx)
	}
	if err != nil && allowed.Load() {
		return nil, withoutRefusal(ctx, network, err)
	}
	return conn, err
}

// withoutRefusal returns why an allowed address was not reached. The dialer returns the error of the
// address that it tried first, which may be another one that is refused. A call may be repeated all
// the same.
func withoutRefusal(ctx context.Context, network string, err error) error {
	if _, ok := errors.AsType[*RefusedError](err); !ok {
		return err
	}
	why := errors.New("an address that may be called does not accept the connection")
	return &net.OpError{Op: "dial", Net: network, Err: cmp.Or(ctx.Err(), why)}
}

// Policy returns the dialer's policy.
func (d *Dialer) Policy() *Policy { return d.policy }
