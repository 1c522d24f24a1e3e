// Package peers compares the processes of a deployment, and keeps them on one version of the time
// zones.
//
// Before it plans anything, every process registers in the store: its version and rules of time
// zones, and the settings that must be the same everywhere. It renews the registration every ten
// seconds, and so knows the others. It also tells over Redis and Pulsar which database it uses. What
// differs is reported in the log, in readiness and in metrics. Migrators also replan the timers of
// changed zones. S31 of package store states why that is correct with any number of processes.
//
//	watch.go       registers this process, and learns of others
//	deployment.go  finds processes that do not belong together: other settings, another database
//	replan.go      marks the timers of changed zones for a replan, in migrators
//	report.go      tells operators which time zones are in use, and logs differences
package peers
