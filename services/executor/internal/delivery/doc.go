// Package delivery attempts fires that may be called, and carries out what follows: an outcome, a
// retry, a dead letter, or a wait.
//
//	deliverer.go  what it needs, and the way of a fire through it
//	limits.go     asks the limits of the app and the breaker of the endpoint
//	guard.go      asks the breakers of several targets
//	call.go       makes an attempt
//	active.go     cancels the attempts that a later fire supersedes
//	attempt.go    an attempt with its result
//	decide.go     decides what follows it, without effects
//	follow.go     carries that out
//	gone.go       pauses the timers of receivers that are gone for good
//	outcome.go    adds to an outcome what its record triggers
//	metrics.go    lateness and durations of calls
package delivery
