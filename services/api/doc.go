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
// An edit makes a new version of a definition in one transaction, from the version that was read: where another edit came between, it
// begins anew, so that two callers who edit different parts lose nothing. PUT by name is a create that, where the name is taken, edits the
// timer that has it. A run-now under an idempotency key keeps the instant of the first call in the store: instant and series are what tells
// fires apart, and both are the same however often the call is repeated. A freeze reaches executors by the change log alone, within half a
// second. Previews are computed by the code that the migrators expand with, and write nothing.
//
// What if two run at once: the store decides (a unique name, a row lock on the timer), so any number of replicas may serve. What
// if it dies halfway: before the commit nothing happened, after it everything did, and the caller repeats the call: a create of
// the same definition, or with the same Idempotency-Key, answers with the timer that is there. A PUT or PATCH that names a status, too, is
// two transactions, the definition first: repeating it does the rest.
package api
