// Package api implements the HTTP API: /api/timer/v1, kept compatible for existing callers, and
// /api/v2, which has all features.
//
// Each resource of v2 is a package below v2, which adds its operations to a Router of package
// v2/route. Packages v1 and v2 share auth (who calls, and what the caller may do), definition
// (reading, checking and showing definitions), writes (batches), upcoming (due instants), input and
// problem (what callers send, and how errors are answered). Package requests limits callers before
// they are known.
//
// The API answers 2xx after the store has committed. Concurrent creates and status changes share a
// transaction (2 ms, at most 500 items), and each item has its own result. After the commit and
// before the answer, the API dispatches new fires (package dispatch). Those with a run time from 2
// s to 2 h ahead become window entries, and those due within 5 s become tasks. It waits at most 2 s
// for each. Tasks that were not sent are published later, and executors find the rows in any case:
// so the request succeeds also while Redis or Pulsar is down. After a change of status or an edit,
// a bounded queue publishes a change notification to timers-changed. A lost notification costs half
// a second, because executors also poll the change log. Creates are not notified and not in the
// change log: an executor reads a timer that it does not know.
//
// An edit creates a new version of a definition in one transaction, based on the version it read.
// It starts again when another edit came between, so concurrent edits of different parts are all
// kept. PUT by name creates the timer, or edits the one that has the name. A run-now under an
// idempotency key keeps the instant of the first call in the store. Instant and series identify a
// fire, and both are the same for every repetition. A freeze reaches executors through the change
// log, within half a second. Previews use the code that expands schedules, and write nothing.
//
// Every caller needs a key (Authorization: Bearer crl_…), unless keys are off. Valid are keys
// created by the API (of an app, or of the deployment), lines of the keys file (scope write), the
// deployment's admin key, and the header of a trusted gateway. The scopes are read, operate, write
// and admin; each includes the one before. The description of every operation names the scope it
// needs. Resources of another app answer 404. A key is cached for one second, and for five while
// the store is slow or unavailable. A revoked key may work for that long, except in the process
// that revoked it. Lookups of unknown keys are limited. Denied requests are counted, and logged
// without the key.
//
// Secrets arrive as plain text and are encrypted before they reach the store. Answers show
// REDACTED. REDACTED in an edit keeps the stored secret, unless it would be sent to another host. A
// receiver that accepted a fire completes it with the token of the attempt and needs no key. A
// redrive creates failed fires again. The store alone decides which fires failed for good, and
// which are redriven; the API does not read the topic of dead letters.
//
// If two requests run at once, the store decides (by a unique name, or a row lock on the timer), so
// any number of replicas may serve. If a process dies before the commit, nothing happened; after
// it, everything did, and the caller repeats the request. A create of the same definition, or with
// the same Idempotency-Key, then answers with the existing timer. A PUT or PATCH with a status is
// two transactions, the definition first; repeating it does the rest.
//
//	service.go  creates it from its parts, and runs it
//	routes.go   the routes, and what applies to every request
//	options.go  what it needs and its settings
//	metrics.go  its metrics
package api
