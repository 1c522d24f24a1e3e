package pulsarbus

import (
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
)

// The messages about handshakes in the client's log.
const (
	logConnectionReady = "Connection is ready"
	logHandshakeFailed = "Failed to perform initial handshake"
	logLoginFailed     = "Failed to load auth credentials"
	logTLSFailed       = "Failed to configure TLS "
	logRejected        = "Failed to establish connection with broker: '%s'"
)

// connectionError is why the bus could not connect to a broker, from the client's log. The client's
// calls return a timeout, or "connection error". It is nil since a connection became ready, and
// while a broker has not answered for the first time.
type connectionError struct{ last atomic.Pointer[error] }

// orCause returns the last connection error, or err if there is none.
func (c *connectionError) orCause(err error) error {
	if p := c.last.Load(); p != nil {
		return *p
	}
	return err
}

func (c *connectionError) failed(host string, why error) {
	err := fmt.Errorf("connecting to the broker %s: %w", host, why)
	c.last.Store(&err)
}

// connectedTo notes a connection whose handshake is not over. A server of another protocol may never
// answer it.
func (c *connectionError) connectedTo(host string) {
	err := fmt.Errorf("the broker %s does not answer the handshake", host)
	c.last.CompareAndSwap(nil, &err)
}

// listen returns a log that updates c.
func (c *connectionError) listen(to pulsarlog.Logger) pulsarlog.Logger {
	return connectionLogger{Logger: to, of: c}
}

// connectionLogger watches for messages about connections. Only these have an error, so messages
// about publishing pass without an allocation.
type connectionLogger struct {
	pulsarlog.Logger

	of   *connectionError
	host string // of a connection
}

func (l connectionLogger) SubLogger(f pulsarlog.Fields) pulsarlog.Logger {
	if to, ok := f["remote_addr"].(*url.URL); ok {
		l.host = to.Host
	}
	l.Logger = l.Logger.SubLogger(f)
	return l
}

func (l connectionLogger) WithError(err error) pulsarlog.Entry {
	entry := l.Logger.WithError(err)
	if l.host == "" || err == nil {
		return entry
	}
	return connectionLogEntry{Entry: entry, of: l.of, host: l.host, err: err}
}

func (l connectionLogger) Info(args ...any) {
	if l.host != "" && len(args) == 1 {
		switch args[0] {
		case logConnected:
			l.of.connectedTo(l.host)
		case logConnectionReady:
			l.of.last.Store(nil)
		}
	}
	l.Logger.Info(args...)
}

func (l connectionLogger) Warnf(format string, args ...any) {
	if l.host != "" && format == logRejected && len(args) == 1 {
		l.of.failed(l.host, errors.New(fmt.Sprint(args...)))
	}
	l.Logger.Warnf(format, args...)
}

// connectionLogEntry is an entry of a connection with an error.
type connectionLogEntry struct {
	pulsarlog.Entry

	of   *connectionError
	host string
	err  error
}

func (e connectionLogEntry) Warn(args ...any) {
	if len(args) == 1 {
		switch args[0] {
		case logConnectFailed, logHandshakeFailed, logLoginFailed, logTLSFailed:
			e.of.failed(e.host, e.err)
		}
	}
	e.Entry.Warn(args...)
}
