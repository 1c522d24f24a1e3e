package callback

import (
	"context"
	"crypto/tls"
)

// Trust makes a caller use another TLS configuration.
func Trust(h *HTTP, c *tls.Config) { h.transport.TLSClientConfig = c }

// Build builds a request and does not send it.
func Build(ctx context.Context, h *HTTP, r *Request) error {
	_, err := h.newRequest(ctx, r)
	return err //nolint:wrapcheck // for tests
}
