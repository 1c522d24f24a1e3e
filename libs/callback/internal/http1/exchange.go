package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

// earlyAnswer is how long it may take to read an answer that the receiver sent before it closed the
// connection in the middle of the request.
const earlyAnswer = 50 * time.Millisecond

// aLongTimeAgo is a deadline that ends reads and writes at once.
var aLongTimeAgo = time.Unix(1, 0)

// conn is a connection. One call at a time uses it.
type conn struct {
	net.Conn

	address   string
	home      *pool
	maxHeader int64
	r         *bufio.Reader // reads from the conn, which counts
	w         *bufio.Writer
	readable  int64 // how much more may be read of the current header
	answered  bool  // whether any byte of the current answer has arrived
	idleSince time.Time
}

func newConn(nc net.Conn, address string, home *pool, maxHeader int64) *conn {
	c := &conn{Conn: nc, address: address, home: home, maxHeader: maxHeader}
	c.r, c.w = bufio.NewReader(c), bufio.NewWriter(nc)
	return c
}

// Read reads for the buffer, within the limit of the header.
func (c *conn) Read(p []byte) (int, error) {
	if c.readable <= 0 {
		return 0, fmt.Errorf(
			"net/http: server response headers exceeded %d bytes; aborted",
			c.maxHeader,
		)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.readable)])
	c.readable -= int64(n)
	c.answered = c.answered || n > 0
	return n, err
}

// roundTrip sends a request and reads the header of its answer. It ends when the request's context
// does. The connection returns to the pool when the body has been read; after an error it is closed.
func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	c.answered = false
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(aLongTimeAgo) })
	resp, err := c.exchange(r)
	if err != nil {
		stop()
		_ = c.Close()
		return nil, err
	}
	c.readable = math.MaxInt64
	b := &body{
		conn: c, from: resp.Body, ctx: r.Context(), stop: stop,
		keep: !resp.Close && !r.Close && resp.StatusCode != http.StatusSwitchingProtocols,
	}
	if resp.Body == http.NoBody {
		b.end(true)
		return resp, nil
	}
	resp.Body = b
	return resp, nil
}

func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	err := r.Write(c.w)
	if err == nil {
		err = c.w.Flush()
	}
	if err == nil {
		return c.answer(r)
	}
	_ = c.SetReadDeadline(time.Now().Add(earlyAnswer))
	resp, readErr := c.answer(r)
	if readErr != nil {
		return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
	}
	resp.Close = true
	return resp, nil
}

// answer reads the header of the final answer. The limit is for it and all interim answers together.
func (c *conn) answer(r *http.Request) (*http.Response, error) {
	c.readable = c.maxHeader
	for {
		resp, err := http.ReadResponse(c.r, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
}

// body is the body of an answer. Its end releases the connection.
type body struct {
	conn *conn
	from io.Reader
	ctx  context.Context //nolint:containedctx // of the request, whose end ends the body
	stop func() bool
	keep bool // whether the connection can serve another request
	err  error
}

// Read reads until the end of the body or of the request's context.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.from.Read(p)
	if err == nil {
		return n, nil
	}
	b.end(errors.Is(err, io.EOF))
	b.err = err
	if !errors.Is(err, io.EOF) {
		b.err = cause(b.ctx, err)
	}
	return n, b.err
}

// Close closes the connection, unless the body was read to its end.
func (b *body) Close() error {
	if b.err == nil {
		b.end(false)
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// end keeps the connection, or closes it. A connection is only kept if the end of the context has
// not touched it, and if nothing came after the answer.
func (b *body) end(complete bool) {
	untouched := b.stop()
	if c := b.conn; complete && untouched && b.keep && c.r.Buffered() == 0 {
		c.home.put(c)
	} else {
		_ = c.Close()
	}
}
