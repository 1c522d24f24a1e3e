package pulsarbus

import (
	"fmt"
	"sync/atomic"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
)

// What the client says of its connections, and to nobody but its log: to whoever waits for a
// producer it is silent until the operation's timeout, which an attempt's own is seldom longer
// than.
const (
	logConnectFailed = "Failed to connect to broker."
	logConnected     = "TCP connection established"
)

// connectFailure knows why a client has no connection, if that is why it does not answer.
type connectFailure struct{ err atomic.Pointer[error] }

// orCause returns what stands in the way of a connection in place of an error that says only that
// the time is over.
func (u *connectFailure) orCause(of error) error {
	if p := u.err.Load(); p != nil {
		return *p
	}
	return of
}

// listen returns a log that tells it.
func (u *connectFailure) listen(
	to pulsarlog.Logger,
) pulsarlog.Logger {
	return connectLogger{to, u}
}

// connectLogger is a log that hears what is said of connections. What is said of messages costs nothing
// more.
type connectLogger struct {
	pulsarlog.Logger

	of *connectFailure
}

func (l connectLogger) SubLogger(f pulsarlog.Fields) pulsarlog.Logger {
	return l.of.listen(l.Logger.SubLogger(f))
}

func (l connectLogger) WithError(err error) pulsarlog.Entry {
	return connectLogEntry{l.Logger.WithError(err), l.of, err}
}

func (l connectLogger) Info(args ...any) {
	if len(args) == 1 && args[0] == logConnected {
		l.of.err.Store(nil)
	}
	l.Logger.Info(args...)
}

// connectLogEntry is an entry of the log about an error.
type connectLogEntry struct {
	pulsarlog.Entry

	of  *connectFailure
	err error
}

func (l connectLogEntry) Warn(args ...any) {
	if len(args) == 1 && args[0] == logConnectFailed {
		err := fmt.Errorf("connecting to the broker: %w", l.err)
		l.of.err.Store(&err)
	}
	l.Entry.Warn(args...)
}
