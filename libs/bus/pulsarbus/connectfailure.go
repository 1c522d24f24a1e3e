package pulsarbus

import (
	"fmt"
	"sync/atomic"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
)

// The client reports connection failures only in its log. A caller that waits for a producer learns
// nothing until the operation timeout, which is often longer than an attempt. These are the log
// messages that matter.
const (
	logConnectFailed = "Failed to connect to broker."
	logConnected     = "TCP connection established"
)

// connectFailure holds the error why a client has no connection, or nil if it is connected.
type connectFailure struct{ err atomic.Pointer[error] }

// orCause returns the connection error, if there is one, instead of err, which only reports a
// timeout.
func (u *connectFailure) orCause(err error) error {
	if p := u.err.Load(); p != nil {
		return *p
	}
	return err
}

// listen returns a log that updates u.
func (u *connectFailure) listen(
	to pulsarlog.Logger,
) pulsarlog.Logger {
	return connectLogger{to, u}
}

// connectLogger is a log that watches for messages about connections. It adds no cost to messages
// about publishing.
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

// connectLogEntry is a log entry with an error.
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
