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
	saysUnreached = "Failed to connect to broker."
	saysConnected = "TCP connection established"
)

// unreached knows why a client has no connection, if that is why it does not answer.
type unreached struct{ err atomic.Pointer[error] }

// instead returns what stands in the way of a connection in place of an error that says only that
// the time is over.
func (u *unreached) instead(of error) error {
	if p := u.err.Load(); p != nil {
		return *p
	}
	return of
}

// listen returns a log that tells it.
func (u *unreached) listen(to pulsarlog.Logger) pulsarlog.Logger { return listening{to, u} }

// listening is a log that hears what is said of connections. What is said of messages costs nothing
// more.
type listening struct {
	pulsarlog.Logger

	of *unreached
}

func (l listening) SubLogger(f pulsarlog.Fields) pulsarlog.Logger {
	return l.of.listen(l.Logger.SubLogger(f))
}

func (l listening) WithError(err error) pulsarlog.Entry {
	return listeningEntry{l.Logger.WithError(err), l.of, err}
}

func (l listening) Info(args ...any) {
	if len(args) == 1 && args[0] == saysConnected {
		l.of.err.Store(nil)
	}
	l.Logger.Info(args...)
}

// listeningEntry is an entry of the log about an error.
type listeningEntry struct {
	pulsarlog.Entry

	of  *unreached
	err error
}

func (l listeningEntry) Warn(args ...any) {
	if len(args) == 1 && args[0] == saysUnreached {
		err := fmt.Errorf("connecting to the broker: %w", l.err)
		l.of.err.Store(&err)
	}
	l.Entry.Warn(args...)
}
