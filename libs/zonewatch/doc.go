// Package zonewatch keeps the processes of a deployment on one version of the time zones.
//
// Before it plans anything, every process registers its version and rules. It renews the
// registration every ten seconds. So each process knows the versions of the others, and reports
// differences in the log, in readiness and in a metric. Migrators also replan the timers of changed
// zones. S31 of package store states why that is correct with any number of processes.
//
//	watch.go   registers the rules of this process, and learns of others
//	replan.go  marks the timers of changed zones for a replan, in migrators
//	report.go  tells operators which versions are in use, and logs differences
package zonewatch
