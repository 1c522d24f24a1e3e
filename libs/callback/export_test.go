package callback

import (
	"context"
	"crypto/tls"
)

// Trust makes a caller use another TLS configuration.
func Trust(h *HTTP, c *tls.Config) {
	h.transports.base = c
	var err error
	if h.transports.plain, err = h.transports.make(h.o.Egress, &transportKey{}); err != nil {
		panic(err)
	}
}

// Build builds a request and does not send it.
func Build(ctx context.Context, h *HTTP, r *Request) error {
	_, err := h.newRequest(ctx, r, nil)
	return err //nolint:wrapcheck // for tests
}
