// Package scheduler dispatches minutes to triggers. It leases the slices of each minute to
// triggers, advances the cursor past finished minutes, and expires sessions that no longer renew.
// There is no leader. Every scheduler does all of this, and the rows of the store decide between
// two.
//
// A file per task:
//
//	scheduler.go  starts and stops all of them
//	options.go    what they need and their settings
//	slices.go     leases slices and publishes them: the current minute first, the coming one shortly
//	              before it begins, then the backlog
//	sessions.go   runs the monitor (libs/session) that expires sessions, and counts the alive ones
//	events.go     publishes outcome events that expired sessions left
//	audit.go      publishes the audit trail
//	missing.go    searches for due instants without a fire and without an outcome
package scheduler
