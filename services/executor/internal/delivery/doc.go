// Package delivery decides what follows an attempt to call a fire, without effects, and knows which
// attempts are in flight.
//
//	attempt.go  an attempt with its result
//	decide.go   what follows it: an outcome, a retry, or a wait for its completion
//	active.go   cancels the attempts that a later fire supersedes
package delivery
