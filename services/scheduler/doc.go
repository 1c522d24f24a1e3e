// Package scheduler dispatches minutes to triggers. It leases the slices of each minute to
// triggers, advances the cursor past finished minutes, sweeps overdue open fires, and recovers the
// fires of expired sessions. There is no leader. Every scheduler does all of this, and the rows of
// the store decide between two.
//
// A file per task:
//
//	scheduler.go  starts and stops all of them
//	options.go    what they need and their settings
//	slices.go     claims slices and publishes them: the current minute first, then the backlog
//	sweep.go      publishes overdue open fires again
//	unclaimed.go  publishes unclaimed fires whose task went to a lost executor
//	sessions.go   tracks alive sessions, and dispatches the claims of expired ones
//	events.go     publishes outcome events that expired sessions left
package scheduler
