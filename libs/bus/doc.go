// Package bus is the contract of the message bus between the services. The implementations are
// membus (embedded) and pulsarbus (Apache Pulsar). Both pass the suite in package bustest.
//
// # Promises
//
//   - B1 Confirmed messages are kept. When Publish returns nil, the bus has stored every message.
//     Each subscription that already existed receives it at least once, even if consumers die.
//     (membus keeps this promise only while its process lives.)
//   - B2 Unconfirmed messages are reported. When Publish returns an error, some messages may be
//     stored and others not, but none with ErrFull. The caller repeats all of them or gives them up.
//   - B3 Shared subscriptions divide their messages. No consumer receives a message that another
//     consumer has acknowledged.
//   - B4 The error of a handler decides. nil acknowledges the message. An error from Permanent
//     moves it to the topic TasksDead with its reason; if the subscription names no such topic, the
//     message is dropped and logged. Any other error redelivers it after a back-off that grows from
//     0.2 s to 10 s. The number of redeliveries is unlimited and never makes a dead letter.
//   - B5 A panic of a handler counts as a temporary error: the messages are redelivered.
//   - B6 Consumers are bounded. At most Concurrency handler calls run, each with at most MaxBatch
//     messages. At most Prefetch messages are buffered in the consumer. A consumer whose handlers
//     are busy receives no more.
//   - B7 Unacknowledged messages return. When a consumer dies or closes, they are delivered to
//     another.
//   - B8 Broadcast reaches every consumer. Each consumer of Broadcast receives every message
//     published after it started. Errors of its handler are ignored.
//   - B9 Setup is idempotent. It may run any number of times, also concurrently. No subscription
//     that it created loses a message published afterwards.
//   - B10 Properties, key and payload arrive unchanged, and so does Published, to the millisecond. If
//     the publisher has not set it, it is set.
//
// Order and exactly-once delivery are not promised. Tests can configure the embedded bus to behave
// worse.
//
// # Files
//
//	bus.go      the contract: messages, publishers, subscribers, and the errors of handlers
//	handler.go  what implementations share: calls of handlers, the back-off, dead letters
//	topics.go   the topics of a deployment, with partitions, subscriptions and schemas
package bus
