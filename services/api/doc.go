// Package api is the service that takes definitions over HTTP: /api/timer/v1, kept as existing
// callers use it, and /api/v2, from which the rest grows.
//
// A 2xx is sent after the store has committed. Creates and changes of status of concurrent requests
// share a transaction (2 ms, at most 500), each with a result of its own; after the commit, and
// before the answer, the fires that an activation made are marked, and those that are due soon are
// published. Marks and messages are best effort: with Redis or the broker away the call still
// succeeds, since the rows are the truth and the sweep finds them. A change of status is announced
// on timers-changed a moment later, from a bounded queue: executors also poll the change log, so a
// lost announcement costs half a second.
//
// An edit makes a new version of a definition in one transaction, from the version that was read:
// where another edit came between, it begins anew, so that two callers who edit different parts
// lose nothing. PUT by name is a create that, where the name is taken, edits the timer that has it.
// A run-now under an idempotency key keeps the instant of the first call in the store: instant and
// series are what tells fires apart, and both are the same however often the call is repeated. A
// freeze reaches executors by the change log alone, within half a second. Previews are computed by
// the code that the migrators expand with, and write nothing.
//
// Whoever calls needs a key (Authorization: Bearer crl_…), unless keys are off: one that was made
// here (of an app, or of the deployment), a line of the keys file (scope write, as it always was),
// the deployment's admin key, or a gateway's header from a network that is trusted. A key has a
// scope: read, write or admin, each of which includes the one before; every operation's description
// names the one it needs. Another app is not there: 404, whatever it has. What the store says of a
// key is believed for a second, and for five while the store is slow or away: so long may a key
// live on that was revoked, but not in the process that revoked it. Looks for keys that nobody
// knows are bounded, and denied calls are counted and logged without the key.
//
// Secrets come in as plain text and are sealed before the store sees them; answers say REDACTED,
// and REDACTED in an edit keeps what is stored, unless it would go to another host. A receiver that
// accepted a fire completes it by a token of the attempt, which is its only key. A redrive makes
// failed fires again, as the store decides; the letters of those are acknowledged behind it, best
// effort.
//
// What if two run at once: the store decides (a unique name, a row lock on the timer), so any
// number of replicas may serve. What if it dies halfway: before the commit nothing happened, after
// it everything did, and the caller repeats the call: a create of the same definition, or with the
// same Idempotency-Key, answers with the timer that is there. A PUT or PATCH that names a status,
// too, is two transactions, the definition first: repeating it does the rest.
package api
