package bus

import (
	"context"
	"errors"
	"time"
)

// Topic is the short name of a topic. Each implementation derives the full name from it.
type Topic string

// The topics. proto/README.md describes the messages of each.
const (
	Slices        Topic = "slices"
	TasksHigh     Topic = "tasks-high"
	TasksNormal   Topic = "tasks-normal"
	TasksLow      Topic = "tasks-low"
	TasksDead     Topic = "tasks-dead" // a notification: no service reads it
	TimersChanged Topic = "timers-changed"
	Outcomes      Topic = "outcomes"
	Audit         Topic = "audit" // a notification: no service reads it
)

// Message properties of dead letters and of messages that operators inspect.
const (
	PropReason = "carillon-reason" // why a message is a dead letter
	PropTopic  = "carillon-topic"  // the topic that a dead letter came from
	PropFire   = "carillon-fire"   // a fire id
	PropTimer  = "carillon-timer"  // a timer id
	PropApp    = "carillon-app"    // an app's name
	PropSlice  = "carillon-slice"  // minute:bucket:token
	// PropCopy, if not empty, marks the second message about one slice and token. It is sent for a
	// slice that no trigger holds yet.
	PropCopy = "carillon-copy"
)

// Message is a published or received message.
type Message struct {
	Key        string // routes on partitioned topics; empty means round robin
	Payload    []byte
	Properties map[string]string
	// Published is when it was published: as the publisher set it, in milliseconds, otherwise by the
	// clock of the host that published it.
	Published time.Time
}

// Publisher publishes messages. It is safe for concurrent use.
type Publisher interface {
	// Publish sends the messages, pipelined. It returns when the bus has confirmed all of them, or
	// with the first error (B1, B2). The bus limits the unconfirmed messages: Publish waits for
	// capacity until ctx ends.
	Publish(ctx context.Context, topic Topic, msgs ...Message) error
}

// Handler processes a batch. It returns nil if all messages succeeded, or one error (or nil) per
// message.
type Handler func(ctx context.Context, batch []Message) []error

// Subscription configures a consumer.
type Subscription struct {
	Topic       Topic
	Name        string // name of the shared subscription
	Concurrency int    // concurrent handler calls; at least 1
	MaxBatch    int    // messages per handler call; at least 1
	// MaxWait limits how long a batch waits to fill after its first message. 0 means no wait.
	MaxWait    time.Duration
	Prefetch   int   // messages buffered in the consumer per partition; at least 1
	DeadLetter Topic // destination of permanent errors; empty means log and drop
}

// Consumer is a running subscription or broadcast.
type Consumer interface {
	// Close stops receiving, waits for the running handlers, and returns unacknowledged messages to
	// the bus.
	Close() error
}

// Subscriber receives messages.
type Subscriber interface {
	// Subscribe joins a shared subscription and calls h until the consumer is closed. The context
	// of the handlers ends when Close is called. If the bus is unavailable, Subscribe waits until
	// ctx ends. Later the consumer reconnects by itself.
	Subscribe(ctx context.Context, s Subscription, h Handler) (Consumer, error)
	// Broadcast delivers every message published from now on to h, one at a time (B8).
	Broadcast(ctx context.Context, topic Topic, h func(context.Context, Message)) (Consumer, error)
}

// Admin sets up and observes the bus.
type Admin interface {
	// Setup creates topics, partitions, subscriptions, retention and schemas (B9).
	Setup(ctx context.Context, specs []TopicSpec) error
	// Backlog returns the number of unacknowledged messages of a subscription.
	Backlog(ctx context.Context, topic Topic, subscription string) (int64, error)
	// Ping checks whether the bus responds.
	Ping(ctx context.Context) error
}

// Bus is the complete contract.
type Bus interface {
	Publisher
	Subscriber
	Admin
	// Close flushes pending messages and closes every consumer and producer.
	Close() error
}

type permanentError struct{ err error }

func (p *permanentError) Error() string { return p.err.Error() }
func (p *permanentError) Unwrap() error { return p.err }

// Permanent marks an error that redelivery cannot fix. The message becomes a dead letter with the
// text of err as its reason.
func Permanent(err error) error { return &permanentError{err} }

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// refusedError is the error of a message that a server answered, and refused.
type refusedError struct{ err error }

func (r *refusedError) Error() string { return r.err.Error() }
func (r *refusedError) Unwrap() error { return r.err }

// Refused marks the answer of a server that refuses a message. Repeating may help once somebody has
// changed the topic.
func Refused(err error) error { return &refusedError{err} }

// IsRefused reports whether err was marked by Refused.
func IsRefused(err error) bool {
	var r *refusedError
	return errors.As(err, &r)
}

// SameError returns the handler result in which all n messages failed with err.
func SameError(n int, err error) []error {
	if err == nil {
		return nil
	}
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// ErrPostponed is returned by a handler that deliberately leaves a message for later. The message
// is redelivered as after any error, but without a warning in the log.
var ErrPostponed = errors.New("message postponed")

// ErrFull is returned by Publish if a bounded topic had no room for the messages until the context
// ended. Then none of them is stored. While a topic is full, its consumers are busy with others.
var ErrFull = errors.New("the topic is full")

// ErrClosed is returned by every call on a closed bus.
var ErrClosed = errors.New("bus is closed")
