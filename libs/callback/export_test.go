package callback

import (
	"context"
	"crypto/tls"
)

// Trust sets the TLS configuration of a caller.
func Trust(h *HTTP, c *tls.Config) {
	h.transports.base = c
	var err error
	if h.transports.common, err = h.transports.make(h.o.Egress, &transportKey{}); err != nil {
		panic(err)
	}
}

// Build builds a request without sending it.
func Build(ctx context.Context, h *HTTP, r *Request) error {
	_, err := h.newRequest(ctx, r, nil)
	return err //nolint:wrapcheck // for tests
}
