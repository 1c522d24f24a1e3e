// Package admission limits what callers may use of the server before they are known.
package admission

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
