package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// explained are credentials whose connections say why the server refuses them, which gRPC would
// report as a reset.
type explained struct {
	credentials.TransportCredentials

	secure bool
}

// ClientHandshake implements credentials.TransportCredentials.
func (e explained) ClientHandshake(
	ctx context.Context,
	authority string,
	raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := e.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // gRPC says what it was doing
	}
	return &explainedConn{Conn: conn, secure: e.secure}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (e explained) Clone() credentials.TransportCredentials {
	return explained{e.TransportCredentials.Clone(), e.secure}
}

// explainedConn is a connection after its handshake.
type explainedConn struct {
	net.Conn

	secure  bool
	greeted atomic.Bool // the server has sent something
}

// alertWait limits the wait for an alert after a failed write.
const alertWait = 100 * time.Millisecond

var errServerOfTLS = errors.New("tls: the server expects TLS: use a URL of grpcs")

// Read reports a server of TLS behind a URL without it. No frame of HTTP/2 with which a server may
// begin looks like a record of TLS.
func (c *explainedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.greeted.Load() {
		c.greeted.Store(true)
		if !c.secure && isTLSRecord(b[:n]) {
			return 0, errServerOfTLS
		}
	}
	return n, err //nolint:wrapcheck // io.EOF must remain
}

// Write looks for an alert if it fails at the beginning. In TLS 1.3 the client's handshake ends
// before the server has judged its certificate. A server that refuses it sends an alert and closes
// the connection, so a write may fail before the alert is read. Another goroutine may read at the
// same time; an alert is then reported to both.
func (c *explainedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || !c.secure || c.greeted.Load() {
		return n, err //nolint:wrapcheck // see Read
	}
	if c.Conn.SetReadDeadline(time.Now().Add(alertWait)) == nil {
		var one [1]byte // after a failed write the connection serves no call
		if _, readErr := c.Conn.Read(one[:]); isAlert(readErr) {
			return n, fmt.Errorf("the server refused the connection: %w", readErr)
		}
	}
	return n, err //nolint:wrapcheck // see Read
}

// isAlert returns whether an error is an alert of the other end.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// isTLSRecord returns whether bytes begin with an alert or a handshake of TLS. As a frame of HTTP/2
// they would have a length of more than a megabyte.
func isTLSRecord(b []byte) bool {
	const alert, handshake, major = 21, 22, 3
	return len(b) > 1 && (b[0] == alert || b[0] == handshake) && b[1] == major
}
