// Package cache is what an executor knows of the timers and apps whose fires it calls. All of it can
// be read again from the store.
//
//	cache.go         what it needs, and all of it together
//	changes.go       what changed: notifications by the bus, and polls of the change log
//	timers.go        the states and definitions of timers
//	inactivities.go  the inactive periods of timers
//	calendars.go     the calendars of definitions
//	backfills.go     which backfills are cancelled
//	apps.go          the settings of apps
package cache
