// Package executor calls timers back. It claims the fires named by tasks, holds them until they are
// due, checks that the timer still wants them, calls the target, and records the outcome.
//
// One fire passes through these files, in this order:
//
//	receive.go     receives tasks, claims their fires in the store, and only then acknowledges
//	claimqueue.go  received tasks wait here for their claim; apps take turns
//	internal/inflight  the bounded set of fires that this process owns
//	internal/hold      holds each fire until its run time, then until a worker is free
//	order.go       late fires of a timer wait here for earlier ones
//	call.go        checks the timer (statecache.go, verdict.go, admit.go), asks the limits
//	               (limits.go), and calls the target
//	decide.go      turns the result of an attempt into an outcome or a retry
//	internal/record    writes outcomes, retries and releases, in batches
//	internal/events    publishes recorded outcomes
//
// These run beside it:
//
//	changes.go     polls the change log, which keeps the state cache fresh
//	storepoll.go   claims fires from the store when no task brings them
//	readmit.go     advances deferred fires when the limits of their app are raised
//	recover.go     dispatches the claims of expired sessions, and confirms unanswered claims
package executor
