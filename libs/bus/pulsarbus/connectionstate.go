package pulsarbus

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
)

// The client reports connection failures, and messages that the broker refuses, only in its log. A
// caller that waits for a producer learns nothing until the operation timeout, which is often longer
// than an attempt. These are the log messages that matter.
const (
	logConnectFailed = "Failed to connect to broker."
	logConnected     = "TCP connection established"
	logRefused       = "Received send error from server: [%v] : [%s]"

	logProducerLost      = "Connection was closed"
	logProducerConnected = "Connected producer" // also again
)

// connectionState is what the log of a client tells about its connections. It may have one to each
// broker of a cluster.
type connectionState struct {
	// why the last connection could not be made, which says nothing about others; nil if it could
	err atomic.Pointer[error]

	mu      sync.Mutex
	lost    map[string]bool // topics, or partitions, whose producer has lost its connection
	refused *error          // why the broker last refused a message; nil: never
	next    chan struct{}   // closed at the next refusal
}

func newConnectionState() *connectionState {
	return &connectionState{lost: make(map[string]bool), next: make(chan struct{})}
}

// disconnected reports whether a producer of a topic, or of one of its partitions, has no connection.
func (u *connectionState) disconnected(topic string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.lost {
		if isOf(name, topic) {
			return true
		}
	}
	return false
}

// forget drops what is known of a topic's producer, which is closed.
func (u *connectionState) forget(topic string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.lost, func(name string, _ bool) bool { return isOf(name, topic) })
}

// isOf reports whether a name is that of a topic, or of one of its partitions.
func isOf(name, topic string) bool {
	return name == topic || strings.HasPrefix(name, topic+"-partition-")
}

func (u *connectionState) producer(topic string, connected bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if connected {
		delete(u.lost, topic)
	} else {
		u.lost[topic] = true
	}
}

// refusal returns why the broker last refused a message, nil if it never did, and a channel that is
// closed at the next refusal.
func (u *connectionState) refusal() (why *error, next <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused, u.next
}

func (u *connectionState) refuse(why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refused = &why
	close(u.next)
	u.next = make(chan struct{})
}

// orCause returns the connection error, if there is one, instead of err, which only reports a
// timeout of something that has no connection.
func (u *connectionState) orCause(err error) error {
	if p := u.err.Load(); p != nil {
		return *p
	}
	return err
}

// listen returns a log that updates u.
func (u *connectionState) listen(
	to pulsarlog.Logger,
) pulsarlog.Logger {
	return stateLogger{Logger: to, of: u}
}

// stateLogger is a log that watches for messages about connections. It adds no cost to messages
// about publishing.
type stateLogger struct {
	pulsarlog.Logger

	of    *connectionState
	topic string // of a producer
}

func (l stateLogger) SubLogger(f pulsarlog.Fields) pulsarlog.Logger {
	if topic, ok := f["topic"].(string); ok {
		l.topic = topic
	}
	l.Logger = l.Logger.SubLogger(f)
	return l
}

func (l stateLogger) WithError(err error) pulsarlog.Entry {
	return stateLogEntry{Entry: l.Logger.WithError(err), of: l.of, err: err}
}

func (l stateLogger) WithField(k string, v any) pulsarlog.Entry {
	return stateLogEntry{Entry: l.Logger.WithField(k, v), of: l.of, topic: l.topic}
}

func (l stateLogger) WithFields(f pulsarlog.Fields) pulsarlog.Entry {
	return stateLogEntry{Entry: l.Logger.WithFields(f), of: l.of, topic: l.topic}
}

func (l stateLogger) Info(args ...any) {
	if len(args) == 1 && args[0] == logConnected {
		l.of.err.Store(nil)
	}
	l.Logger.Info(args...)
}

func (l stateLogger) Warnf(format string, args ...any) {
	if format == logRefused && len(args) == 2 { //nolint:mnd // the kind of error and its text
		l.of.refuse(fmt.Errorf("the broker refused the message: %v: %v", args...))
	}
	l.Logger.Warnf(format, args...)
}

// stateLogEntry is a log entry with an error, or of a producer.
type stateLogEntry struct {
	pulsarlog.Entry

	of    *connectionState
	err   error
	topic string
}

func (l stateLogEntry) Info(args ...any) {
	if len(args) == 1 && args[0] == logProducerConnected {
		l.of.producer(l.topic, true)
	}
	l.Entry.Info(args...)
}

func (l stateLogEntry) Warn(args ...any) {
	if len(args) == 1 && args[0] == logProducerLost {
		l.of.producer(l.topic, false)
	}
	if len(args) == 1 && args[0] == logConnectFailed {
		err := fmt.Errorf("connecting to the broker: %w", l.err)
		l.of.err.Store(&err)
	}
	l.Entry.Warn(args...)
}
