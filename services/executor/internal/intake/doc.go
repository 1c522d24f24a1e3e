// Package intake claims the fires that an executor calls. Tasks name most of them, and the store the
// others.
//
//	intake.go      what it needs, and its receiving while the session is valid
//	receive.go     receives tasks, and has their fires claimed; only then its nil result
//	               acknowledges a message (B4 of package bus)
//	claimqueue.go  received tasks wait here for their claim; apps take turns
//	claim.go       claims fires, however they were found, has the states and definitions of their
//	               timers loaded, and puts the fires into the timing wheel
//	storepoll.go   claims fires from the store when no task brings them
//	recover.go     drops the claims of this process's expired session, and confirms unanswered ones;
//	               runs the monitor (libs/session) that expires the sessions of others
//	readmit.go     claims the deferred fires of an app that may make calls sooner
//	throttle.go    slows catch-up while on-time fires start late
//	metrics.go     its metrics
package intake
