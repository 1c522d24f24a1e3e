package requests

import (
	"context"
	"net/netip"
	"time"
)

// remoteKey is the context key of the request's remote address.
type remoteKey struct{}

// WithRemote returns a context that carries the request's remote address.
func WithRemote(ctx context.Context, remote string) context.Context {
	return context.WithValue(ctx, remoteKey{}, remote)
}

// Remote returns the request's remote address, or an empty text.
func Remote(ctx context.Context) string {
	remote, _ := ctx.Value(remoteKey{}).(string)
	return remote
}

// RemoteHost returns the request's remote address without its port.
func RemoteHost(ctx context.Context) string {
	remote := Remote(ctx)
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return ap.Addr().Unmap().String()
	}
	return remote
}

// connectionKey is the context key of the context that ends with the client's connection.
type connectionKey struct{}

// WithConnection returns a context that carries conn, which ends only when the client disconnects.
func WithConnection(ctx, conn context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// Unlimited returns a context with the values of a request that outlives the request's timeout. It
// ends when the client disconnects. Call cancel in the end.
func Unlimited(ctx context.Context) (out context.Context, cancel context.CancelFunc) {
	conn, ok := ctx.Value(connectionKey{}).(context.Context)
	if !ok {
		return context.WithCancel(ctx)
	}
	out, cancelOut := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(conn, cancelOut)
	return out, func() {
		stop()
		cancelOut()
	}
}

// ClientAddress returns the address by which the request's lookups are counted.
func ClientAddress(ctx context.Context) netip.Addr {
	ap, err := netip.ParseAddrPort(Remote(ctx))
	if err != nil {
		return netip.Addr{} // unparsable addresses count as one
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(64)
		if err != nil {
			return netip.Addr{}
		}
		return p.Addr()
	}
	return a
}

// Limits for requests without a key. The size fits the longest message with each of its 1,024
// characters written as \u00xx, the token, and the rest.
const (
	OpenBodyBytes       = 8 << 10
	openBodyReadTimeout = 2 * time.Second
)
