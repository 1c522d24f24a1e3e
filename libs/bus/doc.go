// Package bus is the contract of the message bus between the services: membus (embedded) and
// pulsarbus (Apache Pulsar) keep it, and package bustest holds the suite that both pass.
//
// # Promises
//
//   - B1 Confirmed is kept: when Publish returns nil, every message is stored by the bus and
//     reaches each subscription that existed before, at least once, also when consumers die.
//     (membus keeps it for the life of the process only.)
//   - B2 Not confirmed is told: when Publish returns an error, some messages may be stored, others
//     not; the caller repeats them all or lets them go.
//   - B3 One of many: the consumers of a shared subscription divide its messages; none gets a
//     message that another one has acknowledged.
//   - B4 A handler's error is the answer: nil acknowledges; an error from Permanent moves the
//     message to the topic TasksDead (or, for a topic that names none, drops it loudly) with its
//     reason; any other error has it redelivered, after a back-off of 0.2 s that grows to 10 s, for
//     ever: never a dead letter by count.
//   - B5 A handler that panics is an error of the second kind: its message is redelivered.
//   - B6 Bounded: at most Concurrency handler calls run, each with at most MaxBatch messages, and
//     at most Prefetch messages wait in the consumer; a consumer whose handlers are busy takes no
//     more.
//   - B7 Not acknowledged comes back: what a consumer that dies or closes had not acknowledged is
//     delivered to another.
//   - B8 Broadcast reaches all: every consumer of Broadcast gets every message published after it
//     started; its handler's error is ignored.
//   - B9 Set-up is idempotent: Setup may run any number of times, by several at once. What was
//     published after it is lost to no subscription that it made.
//   - B10 Properties, key and payload arrive as they were sent.
//
// There is no promise of order and none of exactly once. The embedded bus can be told to be worse
// on purpose.
package bus
