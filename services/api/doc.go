// Package api is the service that takes definitions over HTTP: /api/timer/v1, kept as existing callers use it, and
// /api/v2, from which the rest grows.
//
// A 2xx is sent after the store has committed. Creates and changes of status of concurrent requests share a transaction
// (2 ms, at most 500), each with a result of its own; after the commit, and before the answer, the fires that an activation
// made are marked, and those that are due soon are published. Marks and messages are best effort: with Redis or the broker
// away the call still succeeds, since the rows are the truth and the sweep finds them. A change of status is announced on
// timers-changed a moment later, from a bounded queue: executors also poll the change log, so a lost announcement costs half a
// second.
//
// What if two run at once: the store decides (a unique name, a row lock on the timer), so any number of replicas may serve. What
// if it dies halfway: before the commit nothing happened, after it everything did, and the caller repeats the call: a create of
// the same definition, or with the same Idempotency-Key, answers with the timer that is there.
package api
