// Package zonewatch keeps the processes of a deployment on one version of the time zones.
//
// Every process registers, before it plans anything, by which rules it plans, and renews that every
// ten seconds. So each sees which versions the others have, and says so where they differ: in the
// log, in readiness and in a metric. Migrators besides replan the timers of zones that changed. How
// that holds with any number of processes, see S31 of package store.
package zonewatch
