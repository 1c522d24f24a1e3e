package bus

import (
	"context"
	"errors"
	"time"
)

// Topic is the short name of a topic; an implementation makes the full one from it.
type Topic string

// The topics. proto/README.md says what each carries.
const (
	Slices        Topic = "slices"
	TasksHigh     Topic = "tasks-high"
	TasksNormal   Topic = "tasks-normal"
	TasksLow      Topic = "tasks-low"
	TasksDead     Topic = "tasks-dead"
	TimersChanged Topic = "timers-changed"
	Outcomes      Topic = "outcomes"
)

// Properties of dead letters and of messages that people look at.
const (
	PropReason = "carillon-reason" // why a message is a dead letter
	PropTopic  = "carillon-topic"  // the topic that a dead letter came from
	PropFire   = "carillon-fire"   // a fire id
	PropTimer  = "carillon-timer"  // a timer id
	PropApp    = "carillon-app"    // an app's name
	PropSlice  = "carillon-slice"  // minute:bucket:token
	// PropCopy: not empty: the second of two messages about one slice and token, for a slice that
	// nobody holds yet.
	PropCopy = "carillon-copy"
)

// Message is what is published and consumed.
type Message struct {
	Key        string // routes on partitioned topics; empty goes round robin
	Payload    []byte
	Properties map[string]string
	Published  time.Time // by the bus's clock; set on receipt
}

// Publisher publishes. It is safe for concurrent use.
type Publisher interface {
	// Publish sends the messages, pipelined, and returns when the bus confirmed them all, or with
	// the first error (B1, B2). The bus bounds what is in flight: Publish waits for room until ctx
	// ends.
	Publish(ctx context.Context, topic Topic, msgs ...Message) error
}

// Handler handles a batch. It returns nil when all are done, or one error (or nil) per message.
type Handler func(ctx context.Context, batch []Message) []error

// Subscription says how a consumer receives.
type Subscription struct {
	Topic       Topic
	Name        string // the shared subscription's name
	Concurrency int    // handler calls at once; at least 1
	MaxBatch    int    // messages per handler call; at least 1
	// MaxWait: how long a batch waits to fill once it has its first message; 0: not at all.
	MaxWait    time.Duration
	Prefetch   int   // messages that wait in the consumer per partition; at least 1
	DeadLetter Topic // where permanent errors go; empty: dropped, with an error in the log
}

// Consumer is a running subscription or broadcast.
type Consumer interface {
	// Close stops receiving, waits for the handlers that run, and gives back what was not
	// acknowledged.
	Close() error
}

// Subscriber consumes.
type Subscriber interface {
	// Subscribe joins a shared subscription and calls h until the consumer is closed. Handlers get
	// a context that ends when Close is called. It waits for a bus that is away, until ctx ends;
	// afterwards the consumer reconnects by itself.
	Subscribe(ctx context.Context, s Subscription, h Handler) (Consumer, error)
	// Broadcast delivers every message published from now on to h, one by one (B8).
	Broadcast(ctx context.Context, topic Topic, h func(context.Context, Message)) (Consumer, error)
}

// Admin prepares and observes the bus.
type Admin interface {
	// Setup makes topics, partitions, subscriptions, retention and schemas (B9).
	Setup(ctx context.Context, specs []TopicSpec) error
	// Backlog returns how many messages of a subscription are not acknowledged.
	Backlog(ctx context.Context, topic Topic, subscription string) (int64, error)
	// Ping asks whether the bus answers.
	Ping(ctx context.Context) error
}

// Bus is all of it.
type Bus interface {
	Publisher
	Subscriber
	Admin
	// Close closes every consumer and producer, flushing what is in flight.
	Close() error
}

type permanentError struct{ err error }

func (p *permanentError) Error() string { return p.err.Error() }
func (p *permanentError) Unwrap() error { return p.err }

// Permanent marks an error that no redelivery can mend: the message becomes a dead letter with
// err's text as its reason.
func Permanent(err error) error { return &permanentError{err} }

// IsPermanent tells whether err was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// SameError returns the answer of a handler for which the whole batch met one error.
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

// ErrPostponed is what a handler answers of a message that it leaves where it is on purpose: it comes
// again as after any error, and nobody is warned.
var ErrPostponed = errors.New("message is left where it is")

// ErrClosed is what a closed bus answers.
var ErrClosed = errors.New("bus is closed")
