// Package executor calls timers back. It claims the fires named by tasks, holds them until they are
// due, checks that the timer still wants them, calls the target, and records the outcome.
//
// One fire passes through these, in this order:
//
//	internal/intake     claims fires: those that tasks name, and those found in the store
//	internal/cache      loads the states and definitions of their timers, and knows apps; the
//	                    change log keeps it fresh
//	internal/inflight   the bounded set of fires that this process owns
//	internal/hold       holds each fire until its run time, then until a worker is free
//	call.go             the workers, which call the fires that are decided
//	candidate.go        a due fire until its call, with the answers that its decision has so far
//	resolve.go          finds the state and the definition by which to decide and call
//	admit.go            asks what the decision about a fire needs, and carries the verdict out
//	internal/admission  decides about a fire, without effects
//	lookups.go          what decisions and outcomes ask the store
//	internal/lookup     answers questions in batches, while no worker waits
//	defer.go            defers fires of inactive timers, and gives fires of a newer release back
//	internal/order      late fires of a timer wait here for earlier ones
//	internal/delivery   attempts it, and carries out what follows: outcome, retry, dead letter
//	internal/record     writes outcomes, retries and releases, in batches
//	internal/events     publishes recorded outcomes
//	internal/firetrace  makes the spans of a fire's trace
//
// A worker waits for nothing but the calls that it makes. A decision that lacks an answer of the
// store leaves the worker: its fire waits with the question, goes on with the answer, and comes back
// to the ready queue once it is decided. So neither an unavailable store nor one app's slow answers
// occupy the workers.
//
// This runs beside it:
//
//	readmit.go  asks again for deferred fires whose app may make calls sooner than expected
//
// These make the service:
//
//	executor.go  starts and stops all of it
//	options.go   what it needs and its settings
//	metrics.go   its metrics
package executor
