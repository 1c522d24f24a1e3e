package rediswindow

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// keepAlive is the interval of probes on idle connections, as in the client library.
const keepAlive = 5 * time.Minute

// dialError is why the last connection failed; nil if it did not. The library repeats a connection
// until its time is up, and then reports only that.
type dialError struct{ last atomic.Pointer[error] }

// watch returns dial, or plain TCP if it is nil, and keeps its errors.
func (d *dialError) watch(
	dial func(ctx context.Context, network, addr string) (net.Conn, error),
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		switch {
		case err == nil:
			d.last.Store(nil)
		case ctx.Err() == nil: // otherwise it says no more than the library
			d.last.Store(&err)
		}
		return conn, err
	}
}

// orCause returns the last connection error instead of err, if err only reports a timeout.
func (d *dialError) orCause(err error) error {
	if p := d.last.Load(); p != nil && errors.Is(err, context.DeadlineExceeded) {
		return *p
	}
	return err
}
