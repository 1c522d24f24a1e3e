// Package memstore is a store.Store in plain Go maps, for simulations and for users' tests.
//
// It passes the same suite as the databases, at about a hundredth of their cost, except for dry runs
// (S38): it cannot roll back, so it panics. It keeps nothing: all data is gone with the Store.
//
//	s := memstore.New(time.Now)
//
// Each call holds one lock from its beginning to its end. Every call is therefore one transaction
// that is applied whole, at one instant. A Planner is called under that lock.
//
// A database also rolls back, repeats transactions and answers late. A test that needs this wraps
// the Store.
//
// Timers and their plans:
//
//	store.go        the store, and its lock
//	timers.go       creates and reads timers
//	states.go       states, versions and the change log
//	edit.go         edits, and fires on request
//	expand.go       activates and expands timers
//	replan.go       replans timers after an edit, page by page
//	inactivity.go   inactive stretches, and deferred fires
//	backfills.go    backfills
//	calendars.go    calendars
//	processes.go    processes, and rules of time zones
//	search.go       searches
//	putifabsent.go  values that only the first caller stores
//
// Fires:
//
//	slices.go    minutes, slices and the cursor
//	fires.go     open fires and claims
//	slots.go     slots and stand-ins
//	complete.go  completions
//	sessions.go  sessions
//
// Outcomes:
//
//	outcomes.go       outcomes and attempts
//	outcomeevents.go  outcome events that are not published
//	redrive.go        failed fires, and redrives
//	apphistory.go     finished fires of an app
//
// Apps:
//
//	tenancy.go    apps, their settings and signing keys
//	apikeys.go    API keys
//	signins.go    sign-ins that are ended
//	jobs.go       jobs
//	audit.go      the audit trail
//	auditfeed.go  its feed
//
// Housekeeping is in outcomes.go and here:
//
//	purgetimers.go  removes timers that ended
package memstore
