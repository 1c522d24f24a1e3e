// Package storetest is the suite that every store passes. It has one test for each promise S1 to
// S43 of package store, by its number. Concurrency is tested with many goroutines and, if the
// database allows it, two stores.
//
// Files:
//
//	suite.go  the suite: each promise with its tests, and what the tests share
//
// Timers:
//
//	create.go       creates
//	timers.go       fires that come with a timer
//	controls.go     pauses, and changes of status at once
//	versions.go     versions, and what an edit does to fires
//	replans.go      replans after an edit
//	followups.go    edits of many fires, page by page
//	inactivity.go   inactive stretches, and deferred fires
//	calendars.go    calendars
//	zones.go        rules of time zones
//	rollouts.go     processes with several versions of them
//	seals.go        rotation of the encryption key
//	metered.go      timers with metrics
//	putifabsent.go  values that only the first caller stores
//	expand.go       expansions
//	backfills.go    backfills
//	duework.go      what there is to do for migrators
//	grid.go         plans for tests: due at each multiple of a duration
//
// Fires:
//
//	slices.go       minutes, slices and the cursor
//	fires.go        slices of fires, and overdue ones
//	openfires.go    pages of open fires
//	claims.go       claims and releases
//	sessions.go     sessions
//	order.go        the order of late fires
//	slots.go        slots, queues and stand-ins
//	slotstorm.go    slots under many sessions
//	successors.go   fixed delays
//	delays.go       fixed delays that are edited
//	completions.go  completions
//
// Outcomes:
//
//	history.go        records and history
//	delivery.go       what is kept of a delivery
//	hops.go           the way of a fire
//	outcomeevents.go  outcome events
//	redrives.go       dead letters and redrives
//	apphistory.go     finished fires of an app
//
// Apps and their callers:
//
//	tenancy.go    settings and keys of apps
//	signins.go    sign-ins that are ended
//	faileddeletions.go  deletions of apps that failed
//	purge.go  purges of timers, the change log, ended backfills, and attempts of open fires
//	jobs.go       jobs
//	audit.go      the audit trail
//	auditfeed.go  its feed
//	searches.go   searches
//	searcher.go   compares searches with a filter in Go
//
// All together:
//
//	dryruns.go  dry runs of every call that writes
//	storm.go    a store that misbehaves, under many callers
package storetest
